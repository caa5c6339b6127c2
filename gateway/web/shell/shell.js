// The header of every page: where one is, where one can go, and the colours.

import { html, useState } from "./view.js";

const THEME = "duplex-es.theme";
const THEMES = ["system", "light", "dark"];

const SHAPES = {
  system: html`<path d="M3 4h18v12H3zM8 20h8M12 16v4" />`,
  light: html`<circle cx="12" cy="12" r="4" /><path
      d="M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.500M17.5 17.500L19 19M19 5l-1.5 1.500M6.5 17.500L5 19"
    />`,
  dark: html`<path d="M20 14.500A8 8 0 1 1 9.5 4a6.5 6.5 0 0 0 10.5 10.500z" />`,
};

// An outline icon of 24 by 24 units; decoration, so its button needs a name of its own.
export function Icon({ children }) {
  return html`<svg
    viewBox="0 0 24 24"
    fill="none"
    stroke="currentColor"
    stroke-width="2"
    stroke-linecap="round"
    stroke-linejoin="round"
    aria-hidden="true"
  >
    ${children}
  </svg>`;
}

function wantedTheme() {
  return document.documentElement.dataset.theme ?? "system";
}

function setTheme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  try {
    localStorage.setItem(THEME, name);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
}

function ThemeButton() {
  const [theme, choose] = useState(wantedTheme());
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  const change = () => {
    setTheme(next);
    choose(next);
  };
  return html`<button
    type="button"
    class="button ghost icon"
    title=${`Colours: ${theme}`}
    aria-label=${`Colours: ${theme}. Change to ${next}`}
    onClick=${change}
  >
    <${Icon}>${SHAPES[theme]}<//>
  </button>`;
}

export function Brand() {
  return html`<a class="brand" href="/">
    <svg viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="#4a3fd1" />
      <g stroke-width="3" stroke-linecap="round">
        <path stroke="#7ff0e3" d="M7 13v4M12 9v12" />
        <path stroke="#fff" d="M15.5 10.500v12M20.5 7.500v17M25.5 13.500v5" />
      </g>
    </svg>
    <span class="only-wide">duplex_es</span>
  </a>`;
}

// `current` is the address of the page in the navigation; `wide` uses the whole window; children stand at the right.
export function Masthead({ current, wide = false, children }) {
  const places = [
    ["/", "Talk"],
    ["/sessions", "Calls"],
  ];
  return html`<header class="masthead">
    <a class="skip" href="#main">Skip to the content</a>
    <div class=${`masthead-row ${wide ? "wide" : ""}`}>
      <${Brand} />
      <nav aria-label="Pages">
        ${places.map(
          ([href, name]) => html`<a href=${href} aria-current=${href === current ? "page" : undefined}>${name}</a>`,
        )}
      </nav>
      <div class="masthead-end">${children}<${ThemeButton} /></div>
    </div>
  </header>`;
}

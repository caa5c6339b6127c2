// Colours of the style sheet for canvases, which take no `var()`.

// The current value of the token `--name` as a colour that a canvas takes. Cheap enough once a frame, not per stroke.
export function color(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  probe.hidden = true;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

// Several at once: `{bg: "rgb(…)", …}`.
export function colors(...names) {
  return Object.fromEntries(names.map((name) => [name, color(name)]));
}

// Calls `changed` whenever colours may have changed: by the system or by the button of the header. Returns a stop.
export function onColorsChanged(changed) {
  const query = matchMedia("(prefers-color-scheme: dark)");
  const observer = new MutationObserver(changed);
  query.addEventListener("change", changed);
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  return () => {
    query.removeEventListener("change", changed);
    observer.disconnect();
  };
}

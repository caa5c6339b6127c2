// The icons of the talk page.

import { Icon } from "../../shell/shell.js";
import { html } from "../../shell/view.js";

const microphone = html`<rect x="9" y="3" width="6" height="11" rx="3" /><path d="M5 11a7 7 0 0 0 14 0M12 18v3" />`;

export const MicrophoneIcon = () => html`<${Icon}>${microphone}<//>`;
export const MutedIcon = () => html`<${Icon}>${microphone}<path d="M4 4l16 16" /><//>`;
export const InterruptIcon = () => html`<${Icon}><rect x="6" y="6" width="12" height="12" rx="2" /><//>`;
export const SendIcon = () => html`<${Icon}><path d="M5 12h14M13 6l6 6-6 6" /><//>`;
export const CloseIcon = () => html`<${Icon}><path d="M6 6l12 12M18 6L6 18" /><//>`;
export const KeyboardIcon = () =>
  html`<${Icon}><rect x="3" y="6" width="18" height="12" rx="2" /><path d="M7 10h.01M11 10h.01M15 10h.01M8 14h8" /><//>`;

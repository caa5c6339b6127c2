// The one place that names the vendored framework: `html` makes views, hooks give them state.

import htm from "./vendor/htm.mjs";
import { Fragment, h, render } from "./vendor/preact.mjs";

export const html = htm.bind(h);
export { Fragment, h, render };
export { useCallback, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "./vendor/hooks.mjs";

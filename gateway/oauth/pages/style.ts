import { createHash } from 'node:crypto';

/** The style that all pages of the gateway share: colours, text, the brand and the focus. */
export const COMMON_STYLE = `
:root {
  color-scheme: light dark;
  --ink: light-dark(#1c2024, #edeef0); --muted: light-dark(#60646c, #b0b4ba);
  --ground: light-dark(#f3f4f6, #111113); --card: light-dark(#ffffff, #1b1c1f);
  --line: light-dark(#d3d6dc, #3b3f45); --field: light-dark(#80838d, #777b84);
  --accent: light-dark(#0b57c9, #7fb3ff); --on-accent: light-dark(#ffffff, #08131f);
  --danger: light-dark(#b3261e, #ffb4ab); --danger-ground: light-dark(#fdecea, #3a1917);
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif;
}
main { background: var(--card); border: 1px solid var(--line); border-radius: 1rem; }
.brand { display: flex; align-items: center; gap: .6rem; margin: 0 0 1.5rem; color: var(--muted); font-size: .9rem; }
.brand svg { width: 1.75rem; height: 1.75rem; color: var(--accent); flex: none; }
h1 { margin: 0 0 .5rem; font-size: 1.4rem; line-height: 1.25; text-wrap: balance; }
p { margin: 0 0 1rem; overflow-wrap: anywhere; }
ul { margin: 0 0 1rem; padding-left: 1.25rem; }
.lead, .note { color: var(--muted); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
`;

/**
 * The style of pages with a form or a message. These pages have one column, and buttons that are large enough for
 * touch.
 */
export const STYLE = `${COMMON_STYLE}
body { min-height: 100dvh; padding: 1.5rem 1rem; display: grid; place-items: center; }
main { width: 100%; max-width: 26rem; padding: 2rem; }
.note { margin: 1.25rem 0 0; font-size: .875rem; }
label, legend { font-weight: 600; }
input + label { display: block; margin-top: 1rem; }
fieldset { margin: 0; padding: 0; border: 0; }
legend { padding: 0; margin-bottom: .5rem; }
input[type=email], input[type=password], input[type=text] {
  display: block; width: 100%; min-height: 3rem; margin-top: .4rem; padding: .6rem .8rem; font: inherit;
  color: inherit; background: transparent; border: 1px solid var(--field); border-radius: .6rem;
}
.choice {
  display: flex; align-items: center; gap: .75rem; min-height: 3rem; padding: .6rem .8rem; margin-top: .5rem;
  border: 1px solid var(--line); border-radius: .6rem; font-weight: 400; cursor: pointer; overflow-wrap: anywhere;
}
.choice:has(:checked) { border-color: var(--accent); box-shadow: inset 0 0 0 1px var(--accent); }
.choice input { width: 1.15rem; height: 1.15rem; margin: 0; flex: none; accent-color: var(--accent); }
.choice small { margin-left: auto; color: var(--muted); white-space: nowrap; }
button, .action {
  display: block; width: 100%; min-height: 3rem; margin-top: 1.25rem; padding: .6rem 1rem; font: inherit;
  font-weight: 600; color: var(--on-accent); background: var(--accent); border: 1px solid var(--accent);
  border-radius: .6rem; cursor: pointer;
}
.action { text-align: center; text-decoration: none; }
button.quiet { margin-top: .75rem; color: var(--ink); background: transparent; border-color: var(--field); }
.problem { padding: .75rem 1rem; color: var(--danger); background: var(--danger-ground); border-radius: .6rem; }
.logo { display: block; max-width: 4rem; max-height: 4rem; margin: 0 0 1rem; border-radius: .6rem; }
dl { margin: 0 0 1rem; border: 1px solid var(--line); border-radius: .6rem; }
dl div { padding: .6rem .8rem; }
dl div + div { border-top: 1px solid var(--line); }
dt { font-size: .875rem; color: var(--muted); }
dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
@media (max-width: 30rem) {
  body { padding: 0; place-items: stretch; background: var(--card); }
  main { max-width: none; padding: 1.5rem 1.25rem 2rem; border: 0; border-radius: 0; }
}
@media (forced-colors: active) { button { border: 2px solid ButtonText; } }
`;

/** The source expression of an inline style or script for a content security policy. It permits exactly this text. */
export function styleSource(style: string): string {
  return `'sha256-${createHash('sha256').update(style).digest('base64')}'`;
}

const STYLE_SOURCE = styleSource(STYLE);

/** Origins and schemes to which a page's forms may lead. A browser checks the redirects after a form as well. */
export type FormTargets = readonly string[] | 'any';

/**
 * The headers of a page. A page loads nothing but its pictures and cannot be in a frame. Its icon is inline.
 *
 * @param o.images origins of pictures.
 * @param o.script the inline script of the page; without it the page runs none.
 * @param o.style the inline style of the page; {@link STYLE} when absent.
 */
export function pageHeaders(
  formTargets: FormTargets,
  {
    images = [],
    script,
    style,
  }: {
    readonly images?: readonly string[];
    readonly script?: string;
    readonly style?: string;
  } = {},
): Record<string, string> {
  const policy = [
    "default-src 'none'",
    ...(script === undefined ? [] : [`script-src ${styleSource(script)}`]),
    `style-src ${style === undefined ? STYLE_SOURCE : styleSource(style)}`,
    ['img-src data:', ...images].join(' '),
    "base-uri 'none'",
    ...formAction(formTargets),
    "frame-ancestors 'none'",
  ].join('; ');
  return {
    'Content-Security-Policy': policy,
    'X-Frame-Options': 'DENY',
    // With `no-referrer`, browsers would send `Origin: null` even with our own forms (Fetch, 3.2).
    'Referrer-Policy': 'same-origin',
  };
}

function formAction(targets: FormTargets): string[] {
  if (targets === 'any') return [];
  return [
    `form-action ${targets.length > 0 ? [...new Set(["'self'", ...targets])].join(' ') : "'none'"}`,
  ];
}

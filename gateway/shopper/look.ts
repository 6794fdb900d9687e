import { STYLE } from '../oauth/pages/style.ts';

/** The ground of the pages, as in `COMMON_STYLE`. */
const GROUND = { light: '#ffffff', dark: '#1b1c1f' } as const;
/** The texts on the accent colour, of which one is always readable. */
const ON_ACCENT = ['#ffffff', '#08131f'] as const;

/** The contrast that texts need (WCAG 2.2, 1.4.3). */
const READABLE = 4.5;

/** The style of the pages of a shop. @param accent `#rrggbb`; empty for the colour of this service. */
export function shopStyle(accent: string): string {
  if (accent === '') return `${STYLE}${SHOPPER}`;
  const [light, dark] = [readable(accent, GROUND.light), readable(accent, GROUND.dark)];
  return `${STYLE}${SHOPPER}
:root {
  --accent: light-dark(${light}, ${dark}); --on-accent: light-dark(${textOn(light)}, ${textOn(dark)});
}
`;
}

const SHOPPER = `
main { max-width: 34rem; }
header { display: flex; flex-wrap: wrap; justify-content: space-between; gap: .5rem 1rem; margin: 0 0 1.5rem; }
header nav { display: flex; flex-wrap: wrap; gap: .25rem; font-size: .875rem; }
fieldset { min-width: 0; }
header nav a, footer a { color: inherit; }
header nav a { padding: .25rem .4rem; }
header nav a[aria-current] { font-weight: 600; text-decoration: none; }
footer { margin-top: 2rem; padding-top: 1rem; border-top: 1px solid var(--line); font-size: .875rem; color: var(--muted); }
a, footer .withdraw { color: var(--accent); }
footer .withdraw { font-weight: 600; }
select, textarea {
  display: block; width: 100%; min-height: 3rem; margin-top: .4rem; padding: .6rem .8rem; font: inherit;
  color: inherit; background: var(--card); border: 1px solid var(--field); border-radius: .6rem;
}
.hint { display: block; font-weight: 400; font-size: .875rem; color: var(--muted); }
input + label, select + label { display: block; margin-top: 1rem; }
.item { padding: 1rem 0; border-top: 1px solid var(--line); }
.item:has(img) { display: grid; grid-template-columns: 4rem 1fr; gap: .5rem 1rem; }
.item img { width: 4rem; height: 4rem; object-fit: cover; border-radius: .6rem; }
.item p { margin: 0 0 .25rem; }
form > fieldset { margin-top: 1.5rem; }
ol.steps { list-style: none; margin: 0 0 1rem; padding: 0; }
ol.steps li { padding: .5rem 0 .5rem 1.75rem; position: relative; }
ol.steps li::before { content: '○'; position: absolute; left: 0; }
ol.steps li.done::before { content: '●'; color: var(--accent); }
ol.steps time, ol.steps .open { display: block; font-size: .875rem; color: var(--muted); }
h2 { margin: 1.5rem 0 .5rem; font-size: 1.1rem; }
`;

/** The colour, as much darker or lighter as texts in it need on this ground. */
function readable(colour: string, ground: string): string {
  const towards = luminance(ground) > 0.5 ? 0 : 255;
  for (let part = 0; part < 1; part += 0.05) {
    const mixed = hexOf(channels(colour).map((one) => Math.round(one + (towards - one) * part)));
    if (contrast(mixed, ground) >= READABLE) return mixed;
  }
  return hexOf([towards, towards, towards]);
}

function textOn(colour: string): string {
  const [white, dark] = ON_ACCENT;
  return contrast(white, colour) >= contrast(dark, colour) ? white : dark;
}

/** The contrast ratio of two colours (WCAG 2.2, "contrast ratio"). */
export function contrast(a: string, b: string): number {
  const [darker = 0, lighter = 0] = [luminance(a), luminance(b)].toSorted((x, y) => x - y);
  return (lighter + 0.05) / (darker + 0.05);
}

function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = channels(colour).map((one) => {
    const share = one / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function channels(colour: string): number[] {
  return [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
}

function hexOf(values: readonly number[]): string {
  return `#${values.map((one) => one.toString(16).padStart(2, '0')).join('')}`;
}

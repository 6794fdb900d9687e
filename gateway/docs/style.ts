import { COMMON_STYLE } from '../oauth/pages/style.ts';

/** Name and navigation above every page. */
const HEADER_STYLE = `
header { max-width: 50rem; margin: 0 auto; padding: 1rem 1.25rem .75rem; }
header a { color: var(--accent); text-underline-offset: .15em; }
header .brand { margin: 0 0 .5rem; color: var(--muted); text-decoration: none; }
nav a { display: inline-block; padding: .35rem .8rem .35rem 0; }
nav a[aria-current] { color: var(--ink); font-weight: 600; text-decoration: none; }
`;

/** The style around Swagger UI: our name instead of its own. Its switch between light and dark counts for both. */
export const REFERENCE_STYLE = `${COMMON_STYLE}${HEADER_STYLE}
html { color-scheme: light; }
html.dark-mode { color-scheme: dark; }
header { max-width: 1460px; }
.swagger-ui .topbar .link { display: none; }
/* No response has links. Without their column the table is as wide as a phone. */
.swagger-ui .response-col_links { display: none; }
`;

/** The style of the documentation: text in one column, wide contents that scroll by themselves. */
export const DOCUMENT_STYLE = `${COMMON_STYLE}${HEADER_STYLE}
html { scroll-padding-top: 1rem; -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
a { color: var(--accent); text-underline-offset: .15em; }
main { max-width: 50rem; margin: 0 auto 2rem; padding: 2rem 2.5rem; }
h1 { font-size: 1.7rem; margin-bottom: 1rem; }
h2 { margin: 2.5rem 0 .75rem; font-size: 1.3rem; line-height: 1.3; }
h3 { margin: 2rem 0 .5rem; font-size: 1.1rem; line-height: 1.35; }
h1, h2, h3, li { overflow-wrap: anywhere; }
li { margin: .35rem 0; }
ul, ol { padding-left: 1.4rem; }
code, pre { font: .875em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
code { padding: .1em .3em; background: var(--ground); border-radius: .3rem; overflow-wrap: anywhere; }
pre { margin: 0 0 1rem; padding: .9rem 1rem; overflow-x: auto; background: var(--ground); border: 1px solid var(--line); border-radius: .6rem; }
.copy { display: block; margin: 0 0 .3rem auto; padding: .15rem .7rem; font: inherit; font-size: .85rem; color: var(--accent); background: none; border: 1px solid var(--line); border-radius: .4rem; cursor: pointer; }
pre code { padding: 0; background: none; overflow-wrap: normal; }
.wide { margin: 0 0 1rem; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .925rem; }
th, td { padding: .5rem .75rem .5rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); min-width: 6.5rem; }
.self { margin-left: .4rem; color: var(--muted); font-weight: 400; text-decoration: none; opacity: 0; }
:is(h2, h3, li):hover > .self, :is(h2, h3, li) > p:first-child:hover > .self, .self:focus-visible { opacity: 1; }
@media (hover: none) { .self { opacity: 1; } }
:target { scroll-margin-top: 1rem; background: color-mix(in srgb, var(--accent) 14%, transparent); border-radius: .3rem; }
details { margin: 0 0 1.5rem; padding: .5rem 1rem; border: 1px solid var(--line); border-radius: .6rem; }
summary { padding: .25rem 0; font-weight: 600; cursor: pointer; }
dt { margin-top: 1rem; font-weight: 600; }
dd { margin: .15rem 0 0; overflow-wrap: anywhere; }
small { color: var(--muted); font-weight: 400; }
@media (max-width: 40rem) {
  body { background: var(--card); }
  main { margin: 0; padding: 1.25rem; border-width: 1px 0 0; border-radius: 0; }
}
`;

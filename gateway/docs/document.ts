import { type Html, html } from '../oauth/pages/html.ts';
import { BRAND, htmlDocument } from '../oauth/pages/layout.ts';
import { styleSource } from '../oauth/pages/style.ts';
import { COPY_PATH } from './copy-button.ts';
import { DOCS_PATHS } from './paths.ts';
import { DOCUMENT_STYLE } from './style.ts';

/** The links above every page of the documentation. */
const NAVIGATION = [
  [DOCS_PATHS.index, 'Start'],
  [DOCS_PATHS.quickstart, 'Quickstart'],
  [DOCS_PATHS.storefront, 'Storefronts'],
  [DOCS_PATHS.webhooks, 'Webhooks'],
  [DOCS_PATHS.receivers, 'Receivers'],
  [DOCS_PATHS.apps, 'Apps'],
  [DOCS_PATHS.reference, 'API reference'],
  [DOCS_PATHS.errors, 'Errors'],
  [DOCS_PATHS.changelog, 'Changelog'],
  [DOCS_PATHS.mcp, 'Assistants'],
] as const;

/** Name and navigation above a page. @param path of the page. */
export function pageHeader(path: string): Html {
  const links = NAVIGATION.map(([target, text]) =>
    target === path
      ? html`<a href="${target}" aria-current="page">${text}</a>
`
      : html`<a href="${target}">${text}</a>
`,
  );
  return html`<header>
<a class="brand" href="${DOCS_PATHS.index}">
${BRAND}
</a>
<nav aria-label="Documentation">
${links}</nav>
</header>
`;
}

const COPY_BUTTONS = html`<script src="${COPY_PATH}" defer></script>
`;

/** The icon, for the head of a page. */
export const ICON_LINK = html`<link rel="icon" href="${DOCS_PATHS.icon}" type="image/svg+xml">
`;

/**
 * A page of the documentation.
 *
 * @param o.path of the page, for the navigation.
 * @param o.links whether to show the navigation. Without it the other pages are not served.
 */
export function documentPage(o: {
  readonly path: string;
  readonly title: string;
  readonly body: Html;
  readonly links: boolean;
}): string {
  const onlyName = html`<header><p class="brand">
${BRAND}
</p></header>
`;
  return htmlDocument(o.title, {
    style: DOCUMENT_STYLE,
    head: html`${ICON_LINK}${o.body.text.includes('<pre') ? COPY_BUTTONS : undefined}`,
    body: html`${o.links ? pageHeader(o.path) : onlyName}<main>
${o.body}
</main>`,
  });
}

/** Headers of such a page: no scripts but our own files, no forms, one style, and the icon. */
export const DOCUMENT_HEADERS: Readonly<Record<string, string>> = {
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'same-origin',
  'Content-Security-Policy': [
    "default-src 'none'",
    "script-src 'self'",
    `style-src ${styleSource(DOCUMENT_STYLE)}`,
    "img-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
};

/** The picture of {@link BRAND} as a file. */
export const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="#3b82f6" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round"><path d="M3 8.5 12 4l9 4.5v8L12 21l-9-4.5z"/><path d="M3 8.5 12 13l9-4.5M12 13v8"/></svg>`;

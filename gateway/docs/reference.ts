import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { html } from '../oauth/pages/html.ts';
import { htmlDocument } from '../oauth/pages/layout.ts';
import { ICON_LINK, pageHeader } from './document.ts';
import { DOCS_PATHS } from './paths.ts';
import { REFERENCE_STYLE } from './style.ts';

/** The files of Swagger UI that the page loads, and their types. */
export const REFERENCE_FILES: ReadonlyMap<string, string> = new Map([
  ['swagger-ui.css', 'text/css; charset=utf-8'],
  ['swagger-ui-bundle.js', 'text/javascript; charset=utf-8'],
  ['swagger-ui-standalone-preset.js', 'text/javascript; charset=utf-8'],
]);

export function referenceFile(name: string): string {
  return join(
    dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json')),
    name,
  );
}

/** How requests of the page get partners' tokens. */
export interface ReferenceSignIn {
  /** The partners' authorization server; undefined when there is none. */
  readonly authUrl: string | undefined;
  /** A public client of that server for this page. Without it the reader enters one. */
  readonly clientId: string | undefined;
}

/**
 * Headers of the page. It loads nothing from other hosts. Its scripts call this service, and the token endpoint of the
 * authorization server. Inline styles are allowed, because Swagger UI uses them.
 */
export function referenceHeaders({ authUrl }: ReferenceSignIn): Readonly<Record<string, string>> {
  const tokens = authUrl === undefined ? '' : ` ${new URL(authUrl).origin}`;
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data:",
    "font-src 'self'",
    `connect-src 'self'${tokens}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
  return { 'Content-Security-Policy': policy, 'X-Frame-Options': 'DENY' };
}

const FOLDER = '/docs/assets';

/** The page of the API reference: Swagger UI. */
export const REFERENCE_PAGE = htmlDocument('API reference', {
  style: REFERENCE_STYLE,
  head: html`${ICON_LINK}<link rel="stylesheet" href="${FOLDER}/swagger-ui.css">
`,
  body: html`${pageHeader(DOCS_PATHS.reference)}<div id="page"></div>
<script src="${FOLDER}/swagger-ui-bundle.js"></script>
<script src="${FOLDER}/swagger-ui-standalone-preset.js"></script>
<script src="${DOCS_PATHS.reference}/start.js"></script>`,
});

/** The page to which the authorization server sends the browser back, in the window that the reference opened. */
export const REDIRECT_PAGE = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Signed in · Returns</title><script src="${DOCS_PATHS.oauthRedirect}.js"></script></head>
<body><p>You can close this window.</p></body>
</html>
`;

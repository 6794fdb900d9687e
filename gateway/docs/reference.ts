import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Scope } from '../../services/contract/scopes.ts';
import { supportedVersions, UNSTABLE } from '../../services/contract/versions.ts';
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

/**
 * The values with which requests begin: the first objects of the demo shop of `npm start`, to which the examples of the
 * bodies belong, too. Others replace them by their own.
 */
const FIRST_VALUES = { id: 1, order_name: '#10000' };

/**
 * Puts {@link FIRST_VALUES} into the parameters of a document that have no example of their own. Swagger UI shows examples
 * as the first values of a request. Runs in the browser.
 */
const WITH_FIRST_VALUES = `const withFirstValues = (document) => {
  const operations = Object.values(document.paths ?? {}).flatMap((path) => Object.values(path));
  for (const parameter of operations.flatMap(({ parameters }) => parameters ?? [])) {
    const isId = parameter.in === 'path' && parameter.name === 'id';
    const name = isId || parameter.in === 'query' ? parameter.name : '';
    if (name in firstValues) parameter.example ??= firstValues[name];
  }
  return document;
};
const FirstValues = () => ({
  statePlugins: {
    spec: {
      wrapActions: { updateJsonSpec: (update) => (document) => update(withFirstValues(document)) },
    },
  },
});`;

/** Continues a sign-in with what {@link REDIRECT_SCRIPT} read. Runs in the browser. */
const CONTINUE_SIGN_IN = `new BroadcastChannel('docs-sign-in').onmessage = ({ data }) => {
  const request = window.swaggerUIRedirectOauth2;
  const response = Object.fromEntries(new URLSearchParams(data));
  // Another window with this page may have asked.
  if (!request || response.state !== request.state) return;
  const { auth, redirectUrl } = request;
  if (response.code) {
    delete request.state;
    auth.code = response.code;
    return request.callback({ auth, redirectUrl });
  }
  const message = '[' + response.error + ']: ' + (response.error_description ?? 'no code');
  request.errCb({ authId: auth.name, source: 'auth', level: 'error', message });
};`;

/**
 * Configures Swagger UI. The path selects the version; the newest released version is the first.
 *
 * @param clientId the public client for the sign-in; undefined lets the reader enter one.
 */
export function startScript(today: Date, clientId: string | undefined): string {
  const versions = [...supportedVersions(today)].reverse();
  const urls = [...versions, UNSTABLE].map((name) => ({ name, url: `/openapi/${name}.json` }));
  const settings = {
    urls,
    dom_id: '#page',
    deepLinking: true,
    layout: 'StandaloneLayout',
    validatorUrl: null,
  };
  const signIn = {
    ...(clientId !== undefined && { clientId }),
    usePkceWithAuthorizationCodeGrant: true,
    scopes: 'developer_tools' satisfies Scope,
  };
  return `const settings = ${JSON.stringify(settings)};
const firstValues = ${JSON.stringify(FIRST_VALUES)};
${WITH_FIRST_VALUES}
const ui = SwaggerUIBundle({
  ...settings,
  'urls.primaryName': location.pathname.split('/')[3] ?? settings.urls[0].name,
  oauth2RedirectUrl: location.origin + '${DOCS_PATHS.oauthRedirect}',
  presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
  plugins: [FirstValues],
});
ui.initOAuth(${JSON.stringify(signIn)});
${CONTINUE_SIGN_IN}
`;
}

/**
 * Hands the response of the authorization server to the reference. Swagger UI's own page needs `window.opener`, which is
 * absent after pages with `Cross-Origin-Opener-Policy`, such as ours. A channel reaches only pages of this origin.
 */
export const REDIRECT_SCRIPT = `new BroadcastChannel('docs-sign-in').postMessage(location.search);
history.replaceState(null, '', location.pathname);
window.close();
`;

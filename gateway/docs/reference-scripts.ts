import type { Scope } from '../../services/contract/scopes.ts';
import { supportedVersions, UNSTABLE } from '../../services/contract/versions.ts';
import { DOCS_PATHS } from './paths.ts';

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

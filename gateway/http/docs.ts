import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { type Response, Router } from 'express';
import { ERRORS_PATH } from '../../services/contract/error-help.ts';
import { EXAMPLE_AUTH_URL } from '../../services/contract/example-auth-url.ts';
import { CHANGELOG_PATH, supportedVersions, UNSTABLE } from '../../services/contract/versions.ts';
import { EXACT_PATHS } from './endpoint.ts';
import { errorsPage } from './errors-page.ts';

/** Allows no external resources and no inline scripts. Inline styles are allowed, because Swagger UI uses them. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const ASSETS: ReadonlyMap<string, string> = new Map([
  ['swagger-ui.css', 'text/css'],
  ['swagger-ui-bundle.js', 'text/javascript'],
  ['swagger-ui-standalone-preset.js', 'text/javascript'],
  ['favicon-32x32.png', 'image/png'],
]);

const DOCUMENTS = new URL('../../docs/openapi/', import.meta.url);
const CHANGELOG = new URL('../../docs/changelog.md', import.meta.url);

/**
 * Serves the OpenAPI documents of all supported versions (`/openapi/<version>.json`), the page that shows them, the
 * changelog, to which responses of deprecated versions link, and the page to which errors link.
 *
 * @param o.page whether to serve the page.
 * @param o.authUrl the partners' authorization server in the documents; an example when undefined.
 */
export function docsRouter(
  calendar: () => Date,
  o: { readonly page: boolean; readonly authUrl: string | undefined },
): Router {
  const router = Router(EXACT_PATHS);
  const documents = new Map<string, string>();

  router.get('/openapi/:name', async (req, res, next) => {
    const version = /^(.+)\.json$/.exec(req.params.name)?.[1] ?? '';
    if (![...supportedVersions(calendar()), UNSTABLE].includes(version)) return next();
    const text = documents.get(version) ?? (await readDocument(version, o.authUrl));
    documents.set(version, text);
    res.type('application/json').send(text);
  });
  router.get(CHANGELOG_PATH, async (_req, res, next) => {
    const text = await readFile(CHANGELOG, 'utf8').catch(() => undefined);
    if (text === undefined) return next();
    page(res).type('text/html').send(changelogPage(text));
  });
  router.get(ERRORS_PATH, (_req, res) => {
    page(res).type('text/html').send(errorsPage());
  });
  if (o.page) addPage(router, calendar);
  return router;
}

/** Reads a document that `npm run docs` generated, and replaces the example by the real authorization server. */
async function readDocument(version: string, authUrl = EXAMPLE_AUTH_URL): Promise<string> {
  const text = await readFile(new URL(`${version}.json`, DOCUMENTS), 'utf8');
  return text.replaceAll(EXAMPLE_AUTH_URL, authUrl.replace(/\/+$/, ''));
}

function addPage(router: Router, calendar: () => Date): void {
  const folder = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
  /** Files in memory, so that slow clients do not keep file descriptors open. */
  const files = new Map<string, Buffer>();

  router.get('/docs', (_req, res) => {
    page(res).type('text/html').send(PAGE);
  });
  router.get('/docs/start.js', (_req, res) => {
    page(res).type('text/javascript').send(startScript(calendar()));
  });
  router.get('/docs/assets/:name', async (req, res, next) => {
    const { name } = req.params;
    const type = ASSETS.get(name);
    if (type === undefined) return next();
    const bytes = files.get(name) ?? (await readFile(join(folder, name)));
    files.set(name, bytes);
    page(res).type(type).setHeader('Cache-Control', 'public, max-age=3600').send(bytes);
  });
}

function page(res: Response): Response {
  return res.setHeader('Content-Security-Policy', POLICY);
}

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Returns API</title>
<link rel="icon" href="/docs/assets/favicon-32x32.png">
<link rel="stylesheet" href="/docs/assets/swagger-ui.css">
</head>
<body>
<div id="page"></div>
<script src="/docs/assets/swagger-ui-bundle.js"></script>
<script src="/docs/assets/swagger-ui-standalone-preset.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`;

/** Configures Swagger UI's version picker; the first entry, the newest released version, is shown first. */
function startScript(today: Date): string {
  const versions = [...supportedVersions(today)].reverse();
  const urls = [...versions, UNSTABLE].map((name) => ({ name, url: `/openapi/${name}.json` }));
  const settings = {
    urls,
    dom_id: '#page',
    deepLinking: true,
    layout: 'StandaloneLayout',
    validatorUrl: null,
  };
  return `SwaggerUIBundle({ ...${JSON.stringify(settings)}, presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset] });\n`;
}

function changelogPage(markdown: string): string {
  const text = markdown.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Changelog of the Returns API</title></head>
<body><pre>${text}</pre></body>
</html>
`;
}

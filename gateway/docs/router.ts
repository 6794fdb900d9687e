import { readFile } from 'node:fs/promises';
import { type Request, type RequestHandler, type Response, Router } from 'express';
import { EXAMPLE_AUTH_URL, EXAMPLE_BASE_URL } from '../../services/contract/example-urls.ts';
import { releasedVersions, supportedVersions, UNSTABLE } from '../../services/contract/versions.ts';
import { type Asset, createAsset, sendAsset, sharedAsset } from '../http/asset.ts';
import { EXACT_PATHS } from '../http/endpoint.ts';
import { addMcpHint } from '../mcp/http/address-hint.ts';
import { type Html, html } from '../oauth/pages/html.ts';
import { COPY_PATH, COPY_SCRIPT } from './copy-button.ts';
import { DOCUMENT_HEADERS, documentPage, ICON } from './document.ts';
import { errorsPage } from './errors-page.ts';
import { type Rendered, renderMarkdown } from './markdown.ts';
import {
  APP_FILES,
  addressOf,
  CHANGELOG,
  COMMERCE_OPENAPI,
  DOCS_PATHS,
  GUIDES,
  type MarkdownPage,
  RECEIVER_FILES,
} from './paths.ts';
import {
  REDIRECT_PAGE,
  REDIRECT_SCRIPT,
  REFERENCE_FILES,
  REFERENCE_PAGE,
  type ReferenceSignIn,
  referenceFile,
  referenceHeaders,
  startScript,
} from './reference.ts';

const JSON_TYPE = 'application/json; charset=utf-8';
const DOCUMENTS = new URL('../../docs/openapi/', import.meta.url);

/**
 * Serves the OpenAPI documents of all supported versions (`/openapi/<version>.json`) and of the requests to commerce
 * platforms, and the pages of `/docs`.
 */
export function docsRouter(calendar: () => Date, o: DocsOptions): Router {
  const router = Router(EXACT_PATHS);
  const documents = new Map<string, () => Promise<Asset>>();

  router.get('/openapi/:name', async (req, res, next) => {
    const version = /^(.+)\.json$/.exec(req.params.name)?.[1] ?? '';
    const isKnown = [...supportedVersions(calendar()), UNSTABLE].includes(version);
    if (!isKnown && req.params.name !== COMMERCE_OPENAPI) return next();
    const document =
      documents.get(version) ?? sharedAsset(JSON_TYPE, () => readDocument(version, o));
    documents.set(version, document);
    // The documents are public. Tools in a browser, such as editors of OpenAPI, read them from other origins.
    res.setHeader('Access-Control-Allow-Origin', '*');
    sendAsset(req, res, await document());
  });
  router.use(docsPages(calendar, o));
  return router;
}

/** Reads a document that `npm run docs` generated, and replaces the example addresses by the real ones. */
async function readDocument(version: string, { publicUrl, signIn }: DocsOptions): Promise<string> {
  const text = await readFile(new URL(`${version}.json`, DOCUMENTS), 'utf8');
  const { authUrl = EXAMPLE_AUTH_URL } = signIn;
  return text
    .replaceAll(EXAMPLE_AUTH_URL, authUrl.replace(/\/+$/, ''))
    .replaceAll(EXAMPLE_BASE_URL, publicUrl);
}

interface DocsOptions {
  /** Whether to serve everything. Otherwise only the changelog and the errors, to which responses link. */
  readonly page: boolean;
  /** The public base address, without a trailing slash. */
  readonly publicUrl: string;
  readonly signIn: ReferenceSignIn;
}

/**
 * Placeholders for the base address in pages of the repository. The gateway shows its own base address in their place.
 */
const EXAMPLE_URLS = /https:\/\/returns\.example\.com|https:\/\/<your host>|\{base_url\}(?=\/)/g;

const HTML = 'text/html; charset=utf-8';
const SCRIPT = 'text/javascript; charset=utf-8';
/** The files to copy, by the address below which they are served. */
const EXAMPLES = [
  [DOCS_PATHS.receivers, new URL('../../docs/receivers/', import.meta.url), RECEIVER_FILES],
  [DOCS_PATHS.apps, new URL('../../docs/apps/', import.meta.url), APP_FILES],
] as const;

/** Browsers cache the page, and ask with its ETag whether it is still valid. */
const REVALIDATE = 'no-cache';
const ONE_HOUR = 'public, max-age=3600';

/** Serves the pages below `/docs`, and leads there from `/`. */
function docsPages(calendar: () => Date, o: DocsOptions): Router {
  const router = Router(EXACT_PATHS);
  addMarkdown(router, CHANGELOG, o);
  router.get(
    DOCS_PATHS.errors,
    file({
      headers: DOCUMENT_HEADERS,
      type: HTML,
      read: async () => pageOf(DOCS_PATHS.errors, errorsPage(), o),
    }),
  );
  router.get(
    DOCS_PATHS.icon,
    file({ type: 'image/svg+xml', read: async () => ICON, keep: ONE_HOUR }),
  );
  router.get(COPY_PATH, file({ type: SCRIPT, read: async () => COPY_SCRIPT }));
  if (!o.page) return router;
  router.get('/', (req, res) => {
    addMcpHint(req, res, o.publicUrl);
    res.redirect(302, DOCS_PATHS.index);
  });
  router.get('/docs/', (_req, res) => res.redirect(308, DOCS_PATHS.index));
  const index = () => pageOf(DOCS_PATHS.index, indexPage(calendar(), o.publicUrl), o);
  router.get(DOCS_PATHS.index, daily({ headers: DOCUMENT_HEADERS, type: HTML, text: index }));
  for (const page of GUIDES) addMarkdown(router, page, o);
  for (const [path, folder, names] of EXAMPLES) {
    for (const name of names) {
      const read = () => readFile(new URL(name, folder));
      const headers = { 'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'" };
      const type = 'text/plain; charset=utf-8';
      router.get(`${path}/${name}`, file({ type, headers, read }));
    }
  }
  addReference(router, calendar, o);
  router.get('/docs/*rest', missingPage);
  return router;
}

function addMarkdown(router: Router, page: MarkdownPage, o: DocsOptions): void {
  const read = async () => {
    const text = (await readFile(page.file, 'utf8')).replaceAll(EXAMPLE_URLS, () => o.publicUrl);
    const linkTo = (href: string) => addressOf(page.source, href);
    return pageOf(page.path, renderMarkdown(text, { linkTo, hasEntries: page.hasEntries }), o);
  };
  router.get(page.path, file({ headers: DOCUMENT_HEADERS, type: HTML, read }));
}

function addReference(router: Router, calendar: () => Date, { signIn }: DocsOptions): void {
  const headers = referenceHeaders(signIn);
  const page = file({ type: HTML, headers, read: async () => REFERENCE_PAGE });
  const redirect = { 'Content-Security-Policy': "default-src 'none'; script-src 'self'" };
  const text = () => startScript(calendar(), signIn.clientId);
  router.get(`${DOCS_PATHS.reference}/start.js`, daily({ type: SCRIPT, text }));
  router.get([DOCS_PATHS.reference, `${DOCS_PATHS.reference}/:version`], page);
  router.get(
    DOCS_PATHS.oauthRedirect,
    file({ type: HTML, headers: redirect, read: async () => REDIRECT_PAGE }),
  );
  router.get(
    `${DOCS_PATHS.oauthRedirect}.js`,
    file({ type: SCRIPT, read: async () => REDIRECT_SCRIPT }),
  );
  for (const [name, type] of REFERENCE_FILES) {
    const read = () => readFile(referenceFile(name));
    router.get(`/docs/assets/${name}`, file({ type, headers, read, keep: ONE_HOUR }));
  }
}

function pageOf(path: string, { title, body }: Rendered, o: DocsOptions): string {
  return documentPage({ path, title, body, links: o.page });
}

interface Served {
  readonly type: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The value of `Cache-Control`, {@link REVALIDATE} when absent. */
  readonly keep?: string;
}

/** Serves content that never changes. It is read at the first request, because most gateways never serve most of it. */
function file(o: Served & { readonly read: () => Promise<string | Buffer> }): RequestHandler {
  const asset = sharedAsset(o.type, o.read);
  return async (req, res) => respond(req, res, { ...o, asset: await asset() });
}

/** Serves a text that depends on the day. */
function daily(o: Served & { readonly text: () => string }): RequestHandler {
  let last: { readonly text: string; readonly asset: Asset } | undefined;
  return async (req, res) => {
    const text = o.text();
    if (last?.text !== text) last = { text, asset: await createAsset(o.type, Buffer.from(text)) };
    respond(req, res, { ...o, asset: last.asset });
  };
}

function respond(req: Request, res: Response, o: Served & { readonly asset: Asset }): void {
  for (const [name, value] of Object.entries(o.headers ?? {})) res.setHeader(name, value);
  res.setHeader('Cache-Control', o.keep ?? REVALIDATE);
  sendAsset(req, res, o.asset);
}

const TITLE = 'This page does not exist';

const PAGE = documentPage({
  path: '',
  title: TITLE,
  links: true,
  body: html`<h1>${TITLE}</h1>
<p>The address may be mistyped, or the page has moved. These may help:</p>
<ul>
<li><a href="${DOCS_PATHS.quickstart}">Quickstart</a>: from a key to the first verified webhook.</li>
<li><a href="${DOCS_PATHS.reference}">API reference</a>: every operation, to try out.</li>
<li><a href="${DOCS_PATHS.errors}">Errors</a>: each code, what it means, and what to do.</li>
<li><a href="${DOCS_PATHS.index}">All pages</a>.</li>
</ul>`,
});

/** Answers a browser at an unknown address of the documentation with a page. Other clients get the JSON of every 404. */
const missingPage: RequestHandler = (req, res, next) => {
  res.vary('Accept');
  // A client without a preference, such as curl, gets JSON.
  if (req.accepts(['json', 'html']) !== 'html') return next();
  for (const [name, value] of Object.entries(DOCUMENT_HEADERS)) res.setHeader(name, value);
  res.status(404).setHeader('Cache-Control', 'no-store').type('html').send(PAGE);
};

/** The first page of the documentation: what there is, and where. @param publicUrl the public base address. */
function indexPage(today: Date, publicUrl: string): Rendered {
  const title = 'Returns Management Service';
  const link = (path: string, text: string): Html => html`<a href="${path}">${text}</a>`;
  return {
    title: 'Documentation',
    body: html`<h1>${title}</h1>
<p>Returns of merchants over a versioned REST API, signed webhooks, and assistants. The base address here is <code>${publicUrl}</code>.</p>
<h2 id="start">Start here</h2>
<dl>
<dt>${link(DOCS_PATHS.quickstart, 'Quickstart')}</dt>
<dd>From a key to the first verified webhook in five minutes, with commands to copy. Then: rotate the secret, list returns, send deliveries again.</dd>
<dt>${link(DOCS_PATHS.storefront, 'Storefronts and warehouses')}</dt>
<dd>From an order to goods that have arrived, with an API key: what may come back, submit, receive.</dd>
<dt>${link(DOCS_PATHS.receivers, 'Receivers of webhooks')}</dt>
<dd>Files to copy in Node, Python, Go, Ruby and PHP, and what a receiver must do.</dd>
<dt>${link(DOCS_PATHS.apps, 'Apps for many merchants')}</dt>
<dd>How merchants let an app in with OAuth 2.0: files to copy in Node and Python.</dd>
<dt>${link(DOCS_PATHS.commerce, 'Commerce platforms')}</dt>
<dd>What a merchant's own platform must answer, so that refunds, gift cards and exchange orders are made there.</dd>
</dl>
<h2 id="reference">Reference</h2>
<dl>
<dt>${link(DOCS_PATHS.reference, 'API reference')}</dt>
<dd>Every operation, to try out in the browser. One for each version:
<ul>
${versions(today)}</ul></dd>
<dt>${link(DOCS_PATHS.webhooks, 'Webhooks')}</dt>
<dd>What you can rely on: promises, headers, retries, limits, when each event is sent.</dd>
<dt>${link(DOCS_PATHS.errors, 'Errors')}</dt>
<dd>Each code, what it means, and what to do.</dd>
<dt>${link(DOCS_PATHS.changelog, 'Changelog')}</dt>
<dd>What changed, newest version first.</dd>
</dl>
<h2 id="without-code">Without writing code</h2>
<dl>
<dt>${link(DOCS_PATHS.mcp, 'Assistants (MCP)')}</dt>
<dd>Connect Claude, ChatGPT, Cursor or another MCP client to <code>${publicUrl}/mcp</code>. ${link(DOCS_PATHS.tools, 'All tools')}.</dd>
<dt>${link('/portal', 'Portal')}</dt>
<dd>Where people of a shop see returns, watch webhooks, and manage keys and the team.</dd>
</dl>`,
  };
}

function versions(today: Date): Html[] {
  const supported = supportedVersions(today);
  const released = releasedVersions(today)
    .filter(({ version }) => supported.includes(version))
    .toReversed()
    .map(({ version, stage, sunsetAt }) => ({
      version,
      about: `${stage}, until ${sunsetAt.toISOString().slice(0, 10)}`,
    }));
  return [...released, { version: UNSTABLE, about: 'preview of the next version' }].map(
    ({ version, about }) =>
      html`<li><a href="${DOCS_PATHS.reference}/${version}">${version}</a> <small>(${about}; <a href="/openapi/${version}.json">OpenAPI document</a>)</small></li>
`,
  );
}

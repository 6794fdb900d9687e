import { readFile } from 'node:fs/promises';
import { type Request, type RequestHandler, type Response, Router } from 'express';
import { type Asset, createAsset, sendAsset, sharedAsset } from '../http/asset.ts';
import { EXACT_PATHS } from '../http/endpoint.ts';
import { addMcpHint } from '../mcp/address-hint.ts';
import { COPY_PATH, COPY_SCRIPT } from './copy-button.ts';
import { DOCUMENT_HEADERS, documentPage, ICON } from './document.ts';
import { errorsPage } from './errors-page.ts';
import { indexPage } from './index-page.ts';
import { type Rendered, renderMarkdown } from './markdown.ts';
import { addressOf, CHANGELOG, GUIDES, type MarkdownPage } from './markdown-pages.ts';
import { missingPage } from './missing-page.ts';
import { DOCS_PATHS, RECEIVER_FILES } from './paths.ts';
import {
  REDIRECT_PAGE,
  REFERENCE_FILES,
  REFERENCE_PAGE,
  type ReferenceSignIn,
  referenceFile,
  referenceHeaders,
} from './reference.ts';
import { REDIRECT_SCRIPT, startScript } from './reference-scripts.ts';

export interface DocsOptions {
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
const RECEIVERS = new URL('../../docs/receivers/', import.meta.url);

/** Browsers cache the page, and ask with its ETag whether it is still valid. */
const REVALIDATE = 'no-cache';
const ONE_HOUR = 'public, max-age=3600';

/** Serves the pages below `/docs`, and leads there from `/`. */
export function docsPages(calendar: () => Date, o: DocsOptions): Router {
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
  for (const name of RECEIVER_FILES) {
    const read = () => readFile(new URL(name, RECEIVERS));
    const headers = { 'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'" };
    const type = 'text/plain; charset=utf-8';
    router.get(`${DOCS_PATHS.receivers}/${name}`, file({ type, headers, read }));
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

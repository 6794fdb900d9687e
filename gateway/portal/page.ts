import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { type Request, type RequestHandler, Router } from 'express';
import { type Asset, createAsset, sendAsset } from '../http/asset.ts';
import { EXACT_PATHS } from '../http/endpoint.ts';
import { messagePage } from '../oauth/pages/pages.ts';
import { page, redirect, sendPage } from '../oauth/pages/response.ts';

/** What `npm run portal:build` writes. */
const DIST = new URL('../../portal/dist/', import.meta.url);

/** Vite writes this text into `index.html` where a nonce belongs; see `portal/vite.config.ts`. */
const NONCE_PLACEHOLDER = '__CSP_NONCE__';

/** Names of assets have a hash of their content, so a browser never asks for one again. */
const IMMUTABLE = 'public, max-age=31536000, immutable';
/** The `Cache-Control` header of the icon and of other files without a hash. */
const ONE_HOUR = 'public, max-age=3600';

const TYPES: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  ico: 'image/x-icon',
  js: 'text/javascript; charset=utf-8',
  png: 'image/png',
  svg: 'image/svg+xml',
  webmanifest: 'application/manifest+json',
  woff2: 'font/woff2',
};

/** The name of a file, without folders. */
const NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]*\.([a-z0-9]+)$/;

/**
 * Serves the page of the portal: hashed files below `/portal/assets`, and `index.html` at every other path below
 * `/portal`, because the page's own router reads the path.
 *
 * @param o.signInFor the address of the sign-in that must come before the page; undefined when the page may be shown.
 * @param o.dist the folder of the built page. Only tests set it.
 */
export function portalPageRouter(o: {
  readonly signInFor: (req: Request) => Promise<string | undefined>;
  readonly dist?: URL;
}): Router {
  const { dist = DIST } = o;
  const router = Router(EXACT_PATHS);
  const assets = new Map<string, Asset>();
  const file =
    (folder: string, cacheControl: string): RequestHandler =>
    async (req, res, next) => {
      const name = String(req.params.name);
      const asset = await assetOf(assets, { name, url: new URL(`${folder}${name}`, dist) });
      if (!asset) return next();
      sendAsset(req, res.setHeader('Cache-Control', cacheControl), asset);
    };
  router.get('/portal/assets/:name', file('assets/', IMMUTABLE));
  // An absent asset is a 404: index.html instead of a script would hide that a file is missing.
  router.get('/portal/assets/*rest', (_req, _res, next) => next('router'));
  router.get('/portal/:name', (req, res, next) =>
    NAME.test(req.params.name) ? file('', ONE_HOUR)(req, res, next) : next(),
  );
  router.get(['/portal', '/portal/', '/portal/*path'], async (req, res) => {
    res.setHeader('Cache-Control', 'no-store');
    const signIn = await o.signInFor(req);
    if (signIn !== undefined) return sendPage(res, redirect(signIn));
    // Read each time, because a build in development changes it. It is small.
    const text = await readFile(new URL('index.html', dist), 'utf8').catch(() => undefined);
    if (text === undefined) return sendPage(res, notBuilt());
    const nonce = randomBytes(16).toString('base64');
    for (const [name, value] of Object.entries(pageHeaders(nonce))) res.setHeader(name, value);
    res.type('text/html').send(text.replaceAll(NONCE_PLACEHOLDER, nonce));
  });
  return router;
}

/** Reads a file once: a container image never changes, and in development a changed file has another name. */
async function assetOf(
  assets: Map<string, Asset>,
  { name, url }: { readonly name: string; readonly url: URL },
): Promise<Asset | undefined> {
  const known = assets.get(url.pathname);
  if (known) return known;
  const type = TYPES[NAME.exec(name)?.[1] ?? ''];
  const plain = type && (await readFile(url).catch(() => undefined));
  if (!type || !plain) return undefined;
  const asset = await createAsset(type, plain);
  assets.set(url.pathname, asset);
  return asset;
}

/**
 * The headers of the page. Scripts and styles run only with the nonce, or when such a script loads them; nothing comes
 * from another host, and no other page can frame it.
 */
function pageHeaders(nonce: string): Record<string, string> {
  const policy = [
    "default-src 'none'",
    `script-src 'nonce-${nonce}' 'strict-dynamic'`,
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self'",
    "font-src 'self'",
    "connect-src 'self'",
    "manifest-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
  return {
    'Content-Security-Policy': policy,
    'X-Frame-Options': 'DENY',
    'Referrer-Policy': 'same-origin',
    'Permissions-Policy': 'camera=(), geolocation=(), microphone=(), payment=(), usb=()',
  };
}

function notBuilt() {
  const text =
    'The page of the portal is not built here. Run npm run portal:build, then load this page again.';
  return page(messagePage({ title: 'The portal is not built', text }), { status: 503 });
}

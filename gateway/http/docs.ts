import { readFile } from 'node:fs/promises';
import { Router } from 'express';
import { EXAMPLE_AUTH_URL, EXAMPLE_BASE_URL } from '../../services/contract/example-urls.ts';
import { supportedVersions, UNSTABLE } from '../../services/contract/versions.ts';
import { type DocsOptions, docsPages } from '../docs/router.ts';
import { type Asset, sendAsset, sharedAsset } from './asset.ts';
import { EXACT_PATHS } from './endpoint.ts';

const JSON_TYPE = 'application/json; charset=utf-8';
const DOCUMENTS = new URL('../../docs/openapi/', import.meta.url);

/** Serves the OpenAPI documents of all supported versions (`/openapi/<version>.json`), and the pages of `/docs`. */
export function docsRouter(calendar: () => Date, o: DocsOptions): Router {
  const router = Router(EXACT_PATHS);
  const documents = new Map<string, () => Promise<Asset>>();

  router.get('/openapi/:name', async (req, res, next) => {
    const version = /^(.+)\.json$/.exec(req.params.name)?.[1] ?? '';
    if (![...supportedVersions(calendar()), UNSTABLE].includes(version)) return next();
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

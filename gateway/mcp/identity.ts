import { readFileSync } from 'node:fs';
import type { Implementation } from '@modelcontextprotocol/server';
import type { RequestHandler } from 'express';
import { z } from 'zod';

export const ICON_PATH = '/mcp/icon.svg';

/** A box with a return arrow. */
const SVG =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect width="64" height="64" rx="14" fill="#1f5f5b"/><path d="M14 28 32 19l18 9v19l-18 9-18-9z" fill="none" stroke="#fff" stroke-width="3.5" stroke-linejoin="round"/><path d="m14 28 18 9 18-9M32 37v19" fill="none" stroke="#fff" stroke-width="3.5" stroke-linejoin="round"/><path d="M42 14H24a6 6 0 0 0-6 6m0 0-5-5m5 5 5-5" fill="none" stroke="#ffd166" stroke-width="3.5" stroke-linecap="round" stroke-linejoin="round"/></svg>';

const ICON_MAX_AGE_S = 86_400;

const manifest = z.object({ version: z.string() });

/** The version of the package. */
export const SERVER_VERSION: string = manifest.parse(
  JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')),
).version;
export const SERVER_NAME = 'returns-management';
export const SERVER_TITLE = 'Returns management';
export const SERVER_DESCRIPTION =
  "Find, read, flag, process and cancel a shop's product returns, with the signed-in user's rights.";

/**
 * The server's name, version and icon. The icon is a URL and not inline data, because the newer protocol revision
 * repeats this object in every response.
 */
export function identityAt(publicUrl: string): Implementation {
  return {
    name: SERVER_NAME,
    title: SERVER_TITLE,
    version: SERVER_VERSION,
    icons: [{ src: `${publicUrl}${ICON_PATH}`, mimeType: 'image/svg+xml', sizes: ['any'] }],
  };
}

/** Serves the icon to pages of any origin. */
export const sendIcon: RequestHandler = (_req, res) => {
  res
    .setHeader('Content-Type', 'image/svg+xml')
    .setHeader('Cache-Control', `public, max-age=${ICON_MAX_AGE_S}`)
    .setHeader('Cross-Origin-Resource-Policy', 'cross-origin')
    .end(SVG);
};

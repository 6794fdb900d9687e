import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { Request, Response } from 'express';

/**
 * A file or page that never changes, with its compressed forms. It is in memory, so that slow clients do not keep file
 * descriptors open.
 */
export interface Asset {
  /** Media type. */
  readonly type: string;
  readonly etag: string;
  readonly plain: Buffer;
  readonly br: Buffer;
  readonly gzip: Buffer;
}

/** Compression level 9. Level 11 takes seconds for a script of a megabyte, and makes it only a twentieth smaller. */
const BROTLI_LEVEL = { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } };

/** Compresses the content. */
export async function createAsset(type: string, plain: Buffer): Promise<Asset> {
  const [br, zipped] = await Promise.all([
    promisify(brotliCompress)(plain, BROTLI_LEVEL),
    promisify(gzip)(plain),
  ]);
  const hash = createHash('sha256').update(plain).digest('base64url').slice(0, 22);
  // A weak entity tag (RFC 9110, 8.8.1), because the same content has several encodings.
  return { type, etag: `W/"${hash}"`, plain, br, gzip: zipped };
}

/** Reads and compresses the content at the first call. All clients get the same bytes in memory. */
export function sharedAsset(
  type: string,
  read: () => Promise<string | Buffer>,
): () => Promise<Asset> {
  let asset: Promise<Asset> | undefined;
  return () => {
    asset ??= read().then((content) => createAsset(type, Buffer.from(content)));
    // A failure is not kept: the file may be readable again.
    return asset.catch((error: unknown) => {
      asset = undefined;
      throw error;
    });
  };
}

/** Sends the content in the best encoding that the client accepts, or 304 if the client has it. */
export function sendAsset(req: Request, res: Response, asset: Asset): void {
  res.setHeader('ETag', asset.etag).setHeader('Vary', 'Accept-Encoding');
  if (req.fresh) return void res.status(304).end();
  const accepted = String(req.headers['accept-encoding'] ?? '').replaceAll(' ', '');
  const encoding = (['br', 'gzip'] as const).find((one) =>
    new RegExp(`\\b${one}\\b(?!;q=0(?:\\.0*)?(?:,|$))`).test(accepted),
  );
  if (encoding) res.setHeader('Content-Encoding', encoding);
  const bytes = encoding ? asset[encoding] : asset.plain;
  res.setHeader('Content-Type', asset.type).setHeader('Content-Length', bytes.length);
  res.end(bytes);
}

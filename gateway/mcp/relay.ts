import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { send } from '../rest/respond.ts';

/** Headers of the library's answers that reach the client; ours decide about all others. */
const KEPT = ['allow', 'x-accel-buffering'];

/** Sends on what the protocol's library answered: JSON as a whole, a stream as it comes. */
export async function relay(
  response: Response,
  o: { req: IncomingMessage; res: ServerResponse; headers: Readonly<Record<string, string>> },
): Promise<void> {
  const { req, res } = o;
  const headers: Record<string, string> = { ...o.headers };
  for (const name of KEPT) {
    const value = response.headers.get(name);
    if (value !== null) headers[name] = value;
  }
  const contentType = response.headers.get('content-type');
  if (!response.body || contentType === null) {
    return send(req, res, { status: response.status, headers });
  }
  const isStream = contentType.startsWith('text/event-stream');
  const text = isStream ? undefined : await response.text();
  res.statusCode = response.status;
  for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
  if (text !== undefined) {
    res.setHeader('Content-Type', 'application/json');
    res.setHeader('Content-Length', Buffer.byteLength(text));
    res.end(text);
    return;
  }
  res.setHeader('Content-Type', 'text/event-stream');
  res.flushHeaders();
  // A client that leaves in the middle is no failure of ours.
  await pipeline(Readable.fromWeb(response.body), res).catch(() => res.destroy());
}

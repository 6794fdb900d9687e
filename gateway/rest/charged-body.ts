import type { IncomingMessage, ServerResponse } from 'node:http';
import type { BodyCharge } from '../auth/body-charge.ts';
import type { Admission } from '../auth/rate-limits.ts';
import { rateLimited } from '../errors.ts';
import { announcesBody, type BodyBounds, readBody } from './body.ts';

/**
 * Reads a body and charges for it. A refused body is charged too, because its bytes were read and decompressed.
 *
 * @returns the decompressed bytes; undefined when there is no body.
 * @throws HttpRefusal 429 (rate limit, byte quota), and whatever {@link readBody} throws.
 */
export async function readChargedBody(
  req: IncomingMessage,
  res: ServerResponse,
  o: BodyBounds & { readonly charge: BodyCharge },
): Promise<Buffer | undefined> {
  if (announcesBody(req)) requireAdmitted(o.charge.check());
  const read = await readBody(req, res, o).catch((error: unknown) => {
    // `take` never rejects. The error response does not wait for it.
    void o.charge.take(o.meter.bodyBytes);
    throw error;
  });
  requireAdmitted(await o.charge.take(o.meter.bodyBytes));
  return read;
}

function requireAdmitted(admission: Admission): void {
  if (!admission.admitted) throw rateLimited(admission.retryAfterS);
}

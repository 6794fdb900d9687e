import type { IncomingMessage, ServerResponse } from 'node:http';
import type { BodyCharge } from '../auth/body-charge.ts';
import type { Admission } from '../auth/rate-limits.ts';
import { rateLimited } from '../errors.ts';
import { announcesBody, type BodyBounds, readBody } from './body.ts';

/**
 * Reads a body and charges for it, also for one that is refused: its bytes were read and inflated.
 *
 * @returns the bytes, inflated; undefined when there is no body.
 * @throws HttpRefusal 429 (rate limit, byte quota), and whatever {@link readBody} throws.
 */
export async function readChargedBody(
  req: IncomingMessage,
  res: ServerResponse,
  o: BodyBounds & { readonly charge: BodyCharge },
): Promise<Buffer | undefined> {
  if (announcesBody(req)) requireAdmitted(o.charge.check());
  const read = await readBody(req, res, o).catch((error: unknown) => {
    // Never rejects. The answer does not wait: the client may still be sending.
    void o.charge.take(o.meter.bodyBytes);
    throw error;
  });
  requireAdmitted(await o.charge.take(o.meter.bodyBytes));
  return read;
}

function requireAdmitted(admission: Admission): void {
  if (!admission.admitted) throw rateLimited(admission.retryAfterS);
}

import type { IncomingHttpHeaders } from 'node:http';
import { Webhook } from 'standardwebhooks';

/** A request of which the signature is of interest. */
export interface Signed {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/**
 * Verifies the signature with the public library alone, like a merchant's receiver, and returns the payload.
 *
 * @throws Error of the library when the signature or the time does not fit.
 */
export function verified(secret: string, signed: Signed): Record<string, unknown> {
  const payload = new Webhook(secret).verify(signed.body, signatureOf(signed));
  return payload as Record<string, unknown>;
}

/** Verifies the requests to many paths, each with a secret of its own. */
export interface Verifier {
  learn(path: string, secret: string): void;
  /** For senders whose clock is wrong on purpose: the signature must match the time that they state. */
  ignoreTime(ignore: boolean): void;
  /** Why the request is not ours; empty when it is. */
  faultOf(path: string, signed: Signed): string;
}

export function createVerifier(): Verifier {
  const byPath = new Map<string, Webhook>();
  let timeIsIgnored = false;
  return {
    learn: (path, secret) => void byPath.set(path, new Webhook(secret)),
    ignoreTime(ignore) {
      timeIsIgnored = ignore;
    },
    faultOf(path, signed) {
      const webhook = byPath.get(path);
      if (!webhook) return 'no secret is known';
      try {
        if (timeIsIgnored) return signedAsStated(webhook, signed);
        webhook.verify(signed.body, signatureOf(signed), { jsonParse: false });
        return '';
      } catch (error) {
        return error instanceof Error ? error.message : String(error);
      }
    },
  };
}

function signedAsStated(webhook: Webhook, signed: Signed): string {
  const given = signatureOf(signed);
  const stated = new Date(Number(given['webhook-timestamp']) * 1_000);
  const wanted = webhook.sign(given['webhook-id'], stated, signed.body);
  return given['webhook-signature'].split(' ').includes(wanted) ? '' : 'the signature does not fit';
}

function signatureOf({ headers }: Signed) {
  const text = (name: string) => String(headers[name] ?? '');
  return {
    'webhook-id': text('webhook-id'),
    'webhook-timestamp': text('webhook-timestamp'),
    'webhook-signature': text('webhook-signature'),
  };
}

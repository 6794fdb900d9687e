import type { IncomingHttpHeaders } from 'node:http';
import { Webhook } from 'standardwebhooks';

/** A request with a signature. */
export interface Signed {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/**
 * Verifies the signature with only the public library, like a merchant's receiver, and returns the payload.
 *
 * @throws Error of the library when the signature or the time is invalid.
 */
export function verified(secret: string, signed: Signed): Record<string, unknown> {
  const payload = new Webhook(secret).verify(signed.body, signatureOf(signed));
  return payload as Record<string, unknown>;
}

/** Verifies requests to many paths, each with its own secret. */
export interface Verifier {
  learn(path: string, secret: string): void;
  /** For senders with a wrong clock: the signature must match the time in the header. */
  ignoreTime(ignore: boolean): void;
  /** Why the signature is invalid. Empty when it is valid. */
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
      if (!webhook) return 'there is no secret for this path';
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
  const sent = signatureOf(signed);
  const stated = new Date(Number(sent['webhook-timestamp']) * 1_000);
  const expected = webhook.sign(sent['webhook-id'], stated, signed.body);
  return sent['webhook-signature'].split(' ').includes(expected)
    ? ''
    : 'the signature does not match';
}

function signatureOf({ headers }: Signed) {
  const text = (name: string) => String(headers[name] ?? '');
  return {
    'webhook-id': text('webhook-id'),
    'webhook-timestamp': text('webhook-timestamp'),
    'webhook-signature': text('webhook-signature'),
  };
}

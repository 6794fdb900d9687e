import { Webhook } from 'standardwebhooks';

/** Verifies signatures with the public library alone, like a merchant's receiver. */
export interface Verifier {
  learn(path: string, secret: string): void;
  ignoreTime(ignore: boolean): void;
  /** Why the request is not ours; empty when it is. */
  faultOf(path: string, headers: Record<string, string>, body: string): string;
}

export function createVerifier(): Verifier {
  const byPath = new Map<string, Webhook>();
  let timeIsIgnored = false;
  return {
    learn: (path, secret) => void byPath.set(path, new Webhook(secret)),
    ignoreTime(ignore) {
      timeIsIgnored = ignore;
    },
    faultOf(path, headers, body) {
      const webhook = byPath.get(path);
      if (!webhook) return 'no secret is known';
      try {
        if (timeIsIgnored) return signedAsStated(webhook, headers, body);
        webhook.verify(body, headers, { jsonParse: false });
        return '';
      } catch (error) {
        return error instanceof Error ? error.message : String(error);
      }
    },
  };
}

/** For senders whose clock is wrong on purpose: the signature must match the time that they state. */
function signedAsStated(webhook: Webhook, headers: Record<string, string>, body: string): string {
  const stated = new Date(Number(headers['webhook-timestamp']) * 1_000);
  const wanted = webhook.sign(headers['webhook-id'] ?? '', stated, body);
  const given = (headers['webhook-signature'] ?? '').split(' ');
  return given.includes(wanted) ? '' : 'the signature does not fit';
}

import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import type { Keyring } from '../../services/platform/security/keyring.ts';
import { cookieOf } from '../oauth/sign-in/cookies.ts';

/** How long a page knows the order of a shopper. Milliseconds. */
export const SESSION_MS = 30 * 60_000;

const CONTEXT = 'shopper-session';
const shape = z.object({
  shop: z.string(),
  order: z.string().regex(/^\d{1,16}$/),
  name: z.string(),
  ends: z.number(),
});

/** What a browser has proved: that it knows an order and its e-mail address. */
export interface ShopperSession {
  readonly shopId: bigint;
  readonly providerOrderId: bigint;
  readonly orderName: string;
}

/** Sessions of shoppers. Each is one encrypted cookie for one order, so nothing is stored. */
export interface ShopperSessions {
  /** `Set-Cookie` that starts a session. @param path the address of the shop's page. */
  start(session: ShopperSession, path: string): string;
  /** The session of a browser in this shop; undefined without one, and when it has ended. */
  of(req: IncomingMessage, shopId: bigint): ShopperSession | undefined;
}

/** @param publicUrl browsers send the cookies only over https if this address is https. */
export function createShopperSessions(keyring: Keyring, publicUrl: string): ShopperSessions {
  const isSecure = publicUrl.startsWith('https:');
  const name = `${isSecure ? '__Secure-' : ''}rms_shopper`;
  return {
    start({ shopId, providerOrderId, orderName }, path) {
      const ends = Date.now() + SESSION_MS;
      const content = {
        shop: String(shopId),
        order: String(providerOrderId),
        name: orderName,
        ends,
      };
      const { keyId, encrypted } = keyring.encrypt(JSON.stringify(content), CONTEXT);
      const value = `${keyId}.${Buffer.from(encrypted).toString('base64url')}`;
      return `${name}=${value}; Path=${path}; Max-Age=${SESSION_MS / 1_000}; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`;
    },
    of(req, shopId) {
      const [keyId = '', encrypted = ''] = cookieOf(req, name)?.split('.') ?? [];
      const content = decrypted(keyring, keyId, encrypted);
      if (!content || content.shop !== String(shopId) || content.ends <= Date.now())
        return undefined;
      return { shopId, providerOrderId: BigInt(content.order), orderName: content.name };
    },
  };
}

/** Undefined for a cookie that this service did not make, or whose key is gone. */
function decrypted(keyring: Keyring, keyId: string, encrypted: string) {
  try {
    const text = keyring.decrypt(keyId, Buffer.from(encrypted, 'base64url'), CONTEXT);
    return shape.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

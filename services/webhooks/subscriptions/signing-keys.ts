import type { KeyObject } from 'node:crypto';
import type { Keyring } from '../../platform/keyring.ts';
import { signingKeyOf } from '../sender/signature.ts';
import { contextOf, type Owner } from './secrets.ts';

/** Opened secrets that are kept; the one opened longest ago goes first. */
const MAX_KEPT = 10_000;

/**
 * Opens the signing secrets of a subscription from what is stored: `key-id:hex`, separated by commas.
 * What was opened is kept by its sealed form, so that a rotated secret is another one.
 */
export type SigningKeys = (owner: Owner, sealed: string) => readonly KeyObject[];

export function createSigningKeys(keyring: Keyring): SigningKeys {
  const kept = new Map<string, readonly KeyObject[]>();
  return (owner, sealed) => {
    const name = `${contextOf(owner)} ${sealed}`;
    const known = kept.get(name);
    if (known) return known;
    const keys = sealed.split(',').map((entry) => {
      const at = entry.lastIndexOf(':');
      const bytes = Buffer.from(entry.slice(at + 1), 'hex');
      return signingKeyOf(keyring.open(entry.slice(0, at), bytes, contextOf(owner)));
    });
    const [oldest] = kept.keys();
    if (kept.size >= MAX_KEPT && oldest !== undefined) kept.delete(oldest);
    kept.set(name, keys);
    return keys;
  };
}

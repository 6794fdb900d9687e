import type { Person } from '../../../../proto/gen/rms/portal/v1/common_pb.ts';
import { inWords } from '../../words.ts';

const KINDS: Readonly<Record<string, string>> = {
  api_key: 'API key',
  partner_app: 'Partner app',
};

/** Who did it, and through what. */
export function byText(by: Person | undefined): string {
  if (!by) return '';
  const { kind, name, through } = by;
  const who = name || inWords(kind);
  const prefix = KINDS[kind];
  if (prefix !== undefined) return name === '' ? prefix : `${prefix} ${name}`;
  if (through === '') return who;
  return through === 'portal' ? `${who} in the portal` : `${who} with the ${through}`;
}

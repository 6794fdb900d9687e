import { appendFileSync, closeSync, fsyncSync, openSync, readFileSync } from 'node:fs';

/** One effect: an order, a gift card, a refund, a restock or the cancellation of an order. */
export interface LedgerEffect {
  readonly key: string;
  readonly kind: string;
  readonly id: number;
  readonly name: string;
  /** A restock and a cancellation have neither. */
  readonly amount?: string | undefined;
  readonly currency?: string | undefined;
  /** What the shopper was asked to pay of an exchange order. */
  readonly due?: string | undefined;
  readonly created_at: string;
  readonly shop_id: number;
  /** Effects of a sandbox are apart: they have moved no money. */
  readonly sandbox: boolean;
  readonly return_id: number;
  /** The `data` of the request. */
  readonly data: unknown;
}

export type EffectKey = Pick<LedgerEffect, 'shop_id' | 'sandbox' | 'kind' | 'key'>;

/** The effects of a shop platform. A key has at most one effect of each kind. */
export interface Ledger {
  find(of: EffectKey): LedgerEffect | undefined;
  /**
   * Stores an effect with a new id. It is on the disk when this function returns.
   *
   * @throws Error when the file cannot be written, such as when the disk is full.
   */
  add(effect: Omit<LedgerEffect, 'id' | 'created_at'>): LedgerEffect;
  all(): readonly LedgerEffect[];
  close(): void;
}

const FIRST_ID = 900_000_001;

/**
 * A ledger in a file with one JSON document per line. It stands for your platform and its database: use a table with a
 * unique key there, and make the order or refund in the same transaction.
 */
export function openLedger(file: string): Ledger {
  const handle = openSync(file, 'a+', 0o600);
  const effects = readFileSync(file, 'utf8')
    .split('\n')
    // A process that was killed while it wrote leaves half a line. It sent no response about that effect.
    .flatMap(parse);
  const byKey = new Map(effects.map((one) => [nameOf(one), one]));
  return {
    find: (of) => byKey.get(nameOf(of)),
    add(effect) {
      const id = FIRST_ID + effects.length;
      const made = { ...effect, id, created_at: new Date().toISOString() };
      // The line break comes first: it ends the half line of a killed process.
      appendFileSync(handle, `\n${JSON.stringify(made)}`);
      fsyncSync(handle);
      effects.push(made);
      byKey.set(nameOf(made), made);
      return made;
    },
    all: () => effects,
    close: () => closeSync(handle),
  };
}

const nameOf = ({ shop_id, sandbox, kind, key }: EffectKey): string =>
  `${shop_id} ${sandbox} ${kind} ${key}`;

/** The effect in a line; none in an empty or half line. */
function parse(line: string): LedgerEffect[] {
  try {
    return [JSON.parse(line) as LedgerEffect];
  } catch {
    return [];
  }
}

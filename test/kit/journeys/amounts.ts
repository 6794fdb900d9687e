/** An amount in units of its last decimal, so that totals are exact. */
export function minor(text: unknown): bigint {
  if (typeof text !== 'string' || !/^-?\d+(\.\d+)?$/.test(text)) {
    throw new Error(`not an amount: ${JSON.stringify(text)}`);
  }
  return BigInt(text.replace('.', ''));
}

/** The exact total of some fields of an object. */
export function sum(object: Readonly<Record<string, unknown>>, ...names: string[]): bigint {
  return names.reduce((total, name) => total + minor(object[name]), 0n);
}

/** A decimal text in units of its last decimal, so that sums are exact. */
export function minor(text: unknown): bigint {
  if (typeof text !== 'string' || !/^-?\d+(\.\d+)?$/.test(text)) {
    throw new Error(`not an amount: ${JSON.stringify(text)}`);
  }
  return BigInt(text.replace('.', ''));
}

/** The sum of some fields of an object, exactly. */
export function sum(object: Readonly<Record<string, unknown>>, ...names: string[]): bigint {
  return names.reduce((total, name) => total + minor(object[name]), 0n);
}

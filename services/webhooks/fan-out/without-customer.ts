/** Fields with data about the customer, by topic. Each becomes null. */
const CUSTOMER_FIELDS: Readonly<Record<string, readonly string[]>> = {
  return: ['customer', 'customer_email', 'customer_first_name', 'customer_last_name'],
  giftcard: ['email', 'first_name', 'last_name'],
};

/** A payload without names, e-mail addresses, postal addresses and uploads. All keys stay. */
export function withoutCustomer(topic: string, payload: object): object {
  const nulls = (CUSTOMER_FIELDS[topic] ?? []).map((field) => [field, null]);
  const changed: Record<string, unknown> = { ...payload, ...Object.fromEntries(nulls) };
  if (topic === 'return' && Array.isArray(changed.line_items)) {
    changed.line_items = changed.line_items.map((line: object) => ({
      ...line,
      customer_uploads: { images: [], media: [] },
    }));
  }
  if (topic === 'label.request' && isObject(changed.addresses)) {
    changed.addresses = { ...changed.addresses, origin: null };
  }
  return changed;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** The same for a stored body. */
export function bodyWithoutCustomer(topic: string, body: Uint8Array): Uint8Array {
  // We encoded these bytes, so they hold an object.
  const payload: object = JSON.parse(Buffer.from(body).toString('utf8'));
  return encodeBody(withoutCustomer(topic, payload));
}

/** Encodes a payload for sending. */
export function encodeBody(payload: object): Uint8Array {
  return Buffer.from(JSON.stringify(payload));
}

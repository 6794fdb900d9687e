/**
 * The fields of responses that say who a customer is: name, e-mail address and address, and the link to the customer's
 * own page. A field with such a meaning gets its name here, wherever it is; a test reads the schemas of all operations.
 */
const CUSTOMER_FIELDS: ReadonlySet<string> = new Set([
  'customer',
  'customer_email',
  'customer_first_name',
  'customer_last_name',
  'status_page_url',
]);

export function isCustomerField(name: string): boolean {
  return CUSTOMER_FIELDS.has(name);
}

/** A response whose fields about the customer are null, at any depth. It has all keys of the original. */
export function withoutCustomer(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutCustomer);
  if (typeof value !== 'object' || value === null || value instanceof Date) return value;
  const fields = Object.entries(value).map(([name, inner]) => [
    name,
    isCustomerField(name) ? null : withoutCustomer(inner),
  ]);
  return Object.fromEntries(fields);
}

import { createRequire } from 'node:module';

/**
 * Returns the prototype of an internal class of the library. The caller replaces methods whose behaviour no option
 * changes.
 *
 * @param file path of the module in the package, such as `kafkajs/src/consumer/runner.js`.
 * @param has checks that the class has the methods that the caller replaces.
 * @returns undefined when a later version of the library differs. The caller then replaces no method.
 */
export function kafkaPrototype<T>(
  file: string,
  has: (value: object) => value is T & object,
): (T & object) | undefined {
  const found: unknown = createRequire(import.meta.url)(file);
  const prototype: unknown = typeof found === 'function' ? found.prototype : undefined;
  const isObject = typeof prototype === 'object' && prototype !== null;
  return isObject && has(prototype) ? prototype : undefined;
}

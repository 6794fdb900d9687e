import { createRequire } from 'node:module';

/**
 * Returns the prototype of one of the library's own classes, to replace methods whose behaviour no option changes.
 *
 * @param file path of the module within the package, such as `kafkajs/src/consumer/runner.js`.
 * @param has checks that the class has the methods to replace.
 * @returns undefined when a later version of the library differs; the caller then replaces no method.
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

/** Lets the browser say whether it has a network. All test files of a worker share `navigator`. */
export function sayOnLine(onLine: boolean): void {
  Object.defineProperty(navigator, 'onLine', { value: onLine, configurable: true });
}

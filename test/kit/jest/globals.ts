import { ModernFakeTimers } from '@jest/fake-timers';
import type * as globals from '@jest/globals';
import { ModuleMocker } from 'jest-mock';

/** What test files get as `@jest/globals`. */
export const { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } =
  globalThis as unknown as Omit<typeof globals, 'jest'>;

const mocks = new ModuleMocker(globalThis);

/** Mocks and fake timers. The runner's own `jest` has fewer methods. */
export const jest = Object.assign(
  new ModernFakeTimers({ global: globalThis, config: { fakeTimers: {} } as never }),
  { spyOn: mocks.spyOn.bind(mocks), restoreAllMocks: mocks.restoreAllMocks.bind(mocks) },
);

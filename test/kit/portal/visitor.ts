import { AxeBuilder } from '@axe-core/playwright';
import { beforeAll } from '@jest/globals';
import type { Browser, Locator, Page } from 'playwright-core';
import { during } from '../during.ts';
import { startBrowser, walkThrough } from '../mcp/browser.ts';
import { personOf, sharedStack } from '../mcp/shared-stack.ts';
import type { OpenStack } from '../stack.ts';
import { until } from '../until.ts';
import { callPortal } from './call.ts';

/** Time limit for what a page loads, on a busy machine. Milliseconds. */
const LOAD_MS = 60_000;

/** The widths of a phone, a tablet and a screen. CSS pixels. */
const WIDTHS = [390, 820, 1440] as const;
export const SCHEMES = ['light', 'dark'] as const;

/** A page of the portal with a signed-in user. */
export interface Visitor {
  readonly page: Page;
  /** What went wrong since the last call: errors of the console and of scripts, and violations of the policy. */
  problems(): string[];
  /** Opens a path below `/portal`, and waits until everything on it is loaded. */
  open(path: string): Promise<void>;
  /** What axe finds on the page as it is now, in one colour scheme. */
  accessibilityErrors(scheme: (typeof SCHEMES)[number]): Promise<string[]>;
  /** The widths at which the page or its dialog scrolls sideways. The page has the last width afterwards. */
  wrongSizes(): Promise<string[]>;
  /** All of the above about the page as it is now. It is empty when the page is right. */
  findings(): Promise<string[]>;
  close(): Promise<void>;
}

/** Rules of WCAG 2.2 AA, and the best practices of axe. */
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

/** Signs a user in to the portal, as a person does. */
export async function visit(stack: OpenStack, browser: Browser, name: string): Promise<Visitor> {
  const visitor = await newVisitor(stack, browser);
  const { email, password } = personOf(stack, name);
  const portal = `${stack.file.base_url}/portal`;
  const start = new URL(`${portal}/sign-in?return_to=/portal/sessions`);
  await walkThrough(visitor.page, start, { email, password, backAt: `${portal}/sessions` });
  await untilLoaded(visitor.page);
  return visitor;
}

/** A page of a browser in which nobody is signed in yet. */
export async function newVisitor(
  { file }: Pick<OpenStack, 'file'>,
  browser: Browser,
): Promise<Visitor> {
  const context = await browser.newContext({ viewport: { width: WIDTHS[2], height: 900 } });
  const page = await context.newPage();
  const found: string[] = [];
  page.on('pageerror', ({ message }) => found.push(`script: ${message}`));
  // Chromium reports violations of the policy as errors, too. The bundled identity provider has no icon.
  page.on('console', (message) => {
    const isOurs = message.location().url.startsWith(file.base_url);
    if (message.type() === 'error' && isOurs) found.push(`console: ${message.text()}`);
  });
  const portal = `${file.base_url}/portal`;
  const visitor: Visitor = {
    page,
    problems: () => found.splice(0),
    async open(path) {
      await page.goto(`${portal}${path}`);
      await untilLoaded(page);
    },
    async accessibilityErrors(scheme) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.locator(`html[data-mantine-color-scheme=${scheme}]`).waitFor();
      const axe = new AxeBuilder({ page }).options({ resultTypes: ['violations'] }).withTags(RULES);
      // The page has no frames. Otherwise axe opens a second page for the results of all frames.
      const { violations } = await axe.setLegacyMode().analyze();
      return violations.flatMap(({ id, nodes }) =>
        nodes.map(({ target, failureSummary }) => `${id}: ${target.join(' ')}: ${failureSummary}`),
      );
    },
    wrongSizes: () => wrongSizes(page),
    async findings() {
      const errors: string[] = [];
      for (const scheme of SCHEMES) {
        const inScheme = await visitor.accessibilityErrors(scheme);
        errors.push(...inScheme.map((error) => `${scheme}: ${error}`));
      }
      return [...errors, ...(await visitor.wrongSizes()), ...visitor.problems()];
    },
    close: () => context.close(),
  };
  return visitor;
}

async function wrongSizes(page: Page): Promise<string[]> {
  const wrong: string[] = [];
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 900 });
    const overflow = await page.evaluate<number>(
      `Math.max(...[document.documentElement, ...document.querySelectorAll('dialog')].map(
        ({ scrollWidth, clientWidth }) => scrollWidth - clientWidth))`,
    );
    if (overflow !== 0) wrong.push(`${overflow} px wider than ${width} px`);
  }
  return wrong;
}

/** The shared stack and a browser, during the tests of a file. */
export interface Portal {
  readonly stack: OpenStack;
  readonly browser: Browser;
  /** Signs a user in, in a new session. */
  visit(name: string): Promise<Visitor>;
  /** The page of a user, who signs in once. */
  userNamed(name: string): Promise<Visitor>;
  /** Runs after the tests, while the browser is still open: hooks run in the order of the file. */
  atEnd(work: () => Promise<unknown>): void;
}

export function portalForTests(): Portal {
  const last: (() => Promise<unknown>)[] = [];
  const started = during(async () => {
    const [stack, browser] = [await sharedStack(), await startBrowser()];
    return {
      stack,
      browser,
      async stop() {
        await Promise.all(last.map((work) => work())).finally(() => browser.close());
      },
    };
  });
  const users = new Map<string, Promise<Visitor>>();
  const portal: Portal = {
    get stack() {
      return started().stack;
    },
    get browser() {
      return started().browser;
    },
    visit: (name) => visit(portal.stack, portal.browser, name),
    userNamed(name) {
      const user = users.get(name) ?? portal.visit(name);
      users.set(name, user);
      return user;
    },
    atEnd: (work) => void last.push(work),
  };
  return portal;
}

/** A user who is signed in to the portal during the tests of a file. */
export interface User extends Visitor, Portal {
  /** Calls a method of the portal as this user. */
  call<T = unknown>(name: string, body: object): Promise<T>;
}

export function userForTests(name: string): User {
  const portal = portalForTests();
  let visitor: Visitor | undefined;
  beforeAll(async () => {
    visitor = await portal.visit(name);
  });
  const user = (): Visitor => {
    if (!visitor) throw new Error('the user signs in before the tests');
    return visitor;
  };
  return {
    get stack() {
      return portal.stack;
    },
    get browser() {
      return portal.browser;
    },
    visit: portal.visit,
    userNamed: portal.userNamed,
    atEnd: portal.atEnd,
    get page() {
      return user().page;
    },
    problems: () => user().problems(),
    open: (path) => user().open(path),
    accessibilityErrors: (scheme) => user().accessibilityErrors(scheme),
    wrongSizes: () => user().wrongSizes(),
    findings: () => user().findings(),
    close: () => user().close(),
    call: (method, body) => callPortal(user().page, method, body),
  };
}

/** Waits until the page has its heading, and nothing on it is being loaded. */
export async function untilLoaded(page: Page): Promise<void> {
  await page.locator('main h1').waitFor();
  const loading = page.locator('[aria-busy=true], [aria-label=Loading]');
  await until(async (see) => see(await loading.count()) === 0, { withinMs: LOAD_MS });
}

/** The heading of the page. @throws an error that says what is shown instead. */
export async function headingOf(page: Page): Promise<string> {
  try {
    return await page.locator('main h1').innerText();
  } catch (cause) {
    const shown = await page.locator('body').innerText();
    throw new Error(`${page.url()} has no heading, but: ${shown}`, { cause });
  }
}

/** The alerts that are shown. Without those about failing webhooks: tests share a shop, and some make webhooks that fail. */
export function alertsOn(part: Page | Locator): Promise<string[]> {
  return part
    .getByRole('alert')
    .filter({ hasNotText: /webhooks? fails?/ })
    .allInnerTexts();
}

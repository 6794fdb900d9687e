import { AxeBuilder } from '@axe-core/playwright';
import type { Browser, Locator, Page } from 'playwright-core';
import { walkThrough } from '../mcp/browser.ts';
import { personOf } from '../mcp/shared-stack.ts';
import type { OpenStack } from '../stack.ts';
import { until } from '../until.ts';

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
  const context = await browser.newContext({ viewport: { width: WIDTHS[2], height: 900 } });
  const page = await context.newPage();
  const found: string[] = [];
  page.on('pageerror', ({ message }) => found.push(`script: ${message}`));
  // Chromium reports violations of the policy as errors, too. The bundled identity provider has no icon.
  page.on('console', (message) => {
    const isOurs = message.location().url.startsWith(stack.file.base_url);
    if (message.type() === 'error' && isOurs) found.push(`console: ${message.text()}`);
  });
  const { email, password } = personOf(stack, name);
  const portal = `${stack.file.base_url}/portal`;
  const start = new URL(`${portal}/sign-in?return_to=/portal/sessions`);
  await walkThrough(page, start, { email, password, backAt: `${portal}/sessions` });
  await untilLoaded(page);
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

/** The pages of users, each of whom signs in once. */
export function createVisitors(
  stack: OpenStack,
  browser: Browser,
): (name: string) => Promise<Visitor> {
  const visitors = new Map<string, Promise<Visitor>>();
  return (name) => {
    const known = visitors.get(name) ?? visit(stack, browser, name);
    visitors.set(name, known);
    return known;
  };
}

/** Waits until the page has its heading, and nothing on it is being loaded. */
export async function untilLoaded(page: Page): Promise<void> {
  await page.locator('main h1').waitFor();
  const loading = page.locator('[aria-busy=true], [aria-label=Loading]');
  await until(async (see) => see(await loading.count()) === 0, { withinMs: LOAD_MS });
}

/** The alerts that are shown. Without those about failing webhooks: tests share a shop, and some make webhooks that fail. */
export function alertsOn(part: Page | Locator): Promise<string[]> {
  return part
    .getByRole('alert')
    .filter({ hasNotText: /webhooks? fails?/ })
    .allInnerTexts();
}

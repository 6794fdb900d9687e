import { posix } from 'node:path';
import { ERRORS_PATH } from '../../services/contract/error-help.ts';
import { CHANGELOG_PATH } from '../../services/contract/versions.ts';

/** The addresses of the documentation. */
export const DOCS_PATHS = {
  index: '/docs',
  quickstart: '/docs/quickstart',
  storefront: '/docs/storefront',
  webhooks: '/docs/webhooks',
  receivers: '/docs/receivers',
  apps: '/docs/apps',
  commerce: '/docs/commerce',
  reference: '/docs/reference',
  errors: ERRORS_PATH,
  changelog: CHANGELOG_PATH,
  mcp: '/docs/mcp',
  tools: '/docs/mcp/tools',
  icon: '/docs/icon.svg',
  oauthRedirect: '/docs/oauth2-redirect',
} as const;

/** The files of `docs/receivers`, which are served below {@link DOCS_PATHS.receivers}. */
export const RECEIVER_FILES = [
  'node/receiver.mjs',
  'python/receiver.py',
  'go/receiver.go',
  'ruby/receiver.rb',
  'php/receiver.php',
] as const;

/** The files of `docs/apps`, which are served below {@link DOCS_PATHS.apps}. */
export const APP_FILES = ['node/app.mjs', 'python/app.py'] as const;

/** A page of the repository that partners read at the gateway. */
export interface MarkdownPage {
  readonly path: string;
  /** Relative to `docs`. */
  readonly source: string;
  readonly file: URL;
  /** Whether each entry of its lists has an address of its own. */
  readonly hasEntries?: true;
}

/** @param source below `docs`. */
function pageFrom(source: string, path: string): MarkdownPage {
  return { path, source, file: new URL(`../../docs/${source}`, import.meta.url) };
}

/** The changelog, to which responses of deprecated versions link. */
export const CHANGELOG: MarkdownPage = {
  ...pageFrom('changelog.md', DOCS_PATHS.changelog),
  hasEntries: true,
};

export const GUIDES: readonly MarkdownPage[] = [
  pageFrom('quickstart.md', DOCS_PATHS.quickstart),
  pageFrom('storefront.md', DOCS_PATHS.storefront),
  pageFrom('delivery.md', DOCS_PATHS.webhooks),
  pageFrom('receivers/README.md', DOCS_PATHS.receivers),
  pageFrom('apps/README.md', DOCS_PATHS.apps),
  pageFrom('commerce.md', DOCS_PATHS.commerce),
  pageFrom('mcp/README.md', DOCS_PATHS.mcp),
  pageFrom('mcp/tools.md', DOCS_PATHS.tools),
];

/** The OpenAPI document of the requests to a merchant's platform. */
export const COMMERCE_OPENAPI = 'commerce.json';

/** The addresses of served files, by their place below `docs`. */
const ADDRESSES: ReadonlyMap<string, string> = new Map([
  ...[CHANGELOG, ...GUIDES].map(({ source, path }): [string, string] => [source, path]),
  ...RECEIVER_FILES.map((name): [string, string] => [
    `receivers/${name}`,
    `${DOCS_PATHS.receivers}/${name}`,
  ]),
  ...APP_FILES.map((name): [string, string] => [`apps/${name}`, `${DOCS_PATHS.apps}/${name}`]),
  [`openapi/${COMMERCE_OPENAPI}`, `/openapi/${COMMERCE_OPENAPI}`],
]);

/**
 * The address of a link of a page. Undefined if it leads to a file that only the repository has.
 *
 * @param source the page, relative to `docs`.
 */
export function addressOf(source: string, href: string): string | undefined {
  if (/^https:/.test(href) || href.startsWith('#')) return href;
  if (href.startsWith('/')) return href;
  const [path = '', anchor] = href.split('#');
  const address = ADDRESSES.get(posix.join(posix.dirname(source), path));
  return address && (anchor === undefined ? address : `${address}#${anchor}`);
}

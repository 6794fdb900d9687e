import { posix } from 'node:path';
import { DOCS_PATHS, RECEIVER_FILES } from './paths.ts';

/** A page of the repository that partners read at the gateway. */
export interface MarkdownPage {
  readonly path: string;
  /** Relative to `docs`. */
  readonly source: string;
  readonly file: URL;
  /** Whether each entry of its lists has an address of its own. */
  readonly hasEntries?: true;
}

/** The changelog, to which responses of deprecated versions link. */
export const CHANGELOG: MarkdownPage = {
  path: DOCS_PATHS.changelog,
  source: 'changelog.md',
  file: new URL('../../docs/changelog.md', import.meta.url),
  hasEntries: true,
};

export const GUIDES: readonly MarkdownPage[] = [
  {
    path: DOCS_PATHS.quickstart,
    source: 'quickstart.md',
    file: new URL('../../docs/quickstart.md', import.meta.url),
  },
  {
    path: DOCS_PATHS.webhooks,
    source: 'delivery.md',
    file: new URL('../../docs/delivery.md', import.meta.url),
  },
  {
    path: DOCS_PATHS.receivers,
    source: 'receivers/README.md',
    file: new URL('../../docs/receivers/README.md', import.meta.url),
  },
  {
    path: DOCS_PATHS.mcp,
    source: 'mcp/README.md',
    file: new URL('../../docs/mcp/README.md', import.meta.url),
  },
  {
    path: DOCS_PATHS.tools,
    source: 'mcp/tools.md',
    file: new URL('../../docs/mcp/tools.md', import.meta.url),
  },
];

/** The addresses of served files, by their place below `docs`. */
const ADDRESSES: ReadonlyMap<string, string> = new Map([
  ...[CHANGELOG, ...GUIDES].map(({ source, path }): [string, string] => [source, path]),
  ...RECEIVER_FILES.map((name): [string, string] => [
    `receivers/${name}`,
    `${DOCS_PATHS.receivers}/${name}`,
  ]),
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

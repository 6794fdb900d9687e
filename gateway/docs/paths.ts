import { ERRORS_PATH } from '../../services/contract/error-help.ts';
import { CHANGELOG_PATH } from '../../services/contract/versions.ts';

/** The addresses of the documentation. */
export const DOCS_PATHS = {
  index: '/docs',
  quickstart: '/docs/quickstart',
  webhooks: '/docs/webhooks',
  receivers: '/docs/receivers',
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

/** One allowed redirect URI, parsed from the list of clients: `known-clients.ts`, or the setting MCP_CLIENTS. */
export type RedirectRule =
  | { readonly kind: 'exact'; readonly uri: string }
  | { readonly kind: 'segment'; readonly before: string; readonly after: string }
  | { readonly kind: 'loopback'; readonly hosts: readonly string[]; readonly path: string };

/** Maximum length of a redirect URI. Characters. */
const MAX_LENGTH = 500;
const LOOPBACK = /^http:\/\/(127\.0\.0\.1|\[::1\]|localhost)(?::(\d{1,5}))?(\/[^?#]*)?$/;
const SEGMENT = /^[A-Za-z0-9_-]{1,128}$/;
const PLACEHOLDER = '{id}';

/** Parses an entry of the list. @throws Error for a text that is not a redirect URI, or for an unsafe scheme. */
export function redirectRule(uri: string): RedirectRule {
  if (uri.length > MAX_LENGTH || /[\s\\#*]/.test(uri))
    throw new Error(`not a redirect URI: ${uri}`);
  const loopback = LOOPBACK.exec(uri);
  if (loopback) {
    const [, host = '', , path = ''] = loopback;
    return { kind: 'loopback', hosts: host === '127.0.0.1' ? [host, '[::1]'] : [host], path };
  }
  const url = URL.parse(uri);
  if (!url || !isSafe(url)) throw new Error(`not a redirect URI: ${uri}`);
  const [before = '', after, more] = uri.split(PLACEHOLDER);
  if (after === undefined) return { kind: 'exact', uri };
  if (more !== undefined || !/^https:\/\/[^/]+\/.*\/$/.test(before)) {
    throw new Error(`${PLACEHOLDER} must be one whole segment of an https path: ${uri}`);
  }
  return { kind: 'segment', before, after };
}

/** Allows `https` and private-use schemes of apps (RFC 8252, 7.1). */
function isSafe({ protocol, username, password, host }: URL): boolean {
  if (username !== '' || password !== '') return false;
  if (protocol === 'https:') return host !== '';
  return !RESERVED_SCHEMES.has(protocol);
}

const RESERVED_SCHEMES: ReadonlySet<string> = new Set(
  [
    'about',
    'blob',
    'data',
    'file',
    'filesystem',
    'ftp',
    'http',
    'javascript',
    'vbscript',
    'view-source',
    'ws',
    'wss',
  ].map((scheme) => `${scheme}:`),
);

/** Whether a redirect URI matches the rule. An equivalent URI with a different spelling does not match. */
export function matches(rule: RedirectRule, uri: string): boolean {
  if (uri.length > MAX_LENGTH) return false;
  switch (rule.kind) {
    case 'exact':
      return uri === rule.uri;
    case 'segment': {
      const isFramed = uri.startsWith(rule.before) && uri.endsWith(rule.after);
      return (
        isFramed && SEGMENT.test(uri.slice(rule.before.length, uri.length - rule.after.length))
      );
    }
    case 'loopback': {
      const [, host = '', port, path = ''] = LOOPBACK.exec(uri) ?? [];
      return rule.hosts.includes(host) && path === rule.path && isPort(port);
    }
    default:
      return rule satisfies never;
  }
}

function isPort(text: string | undefined): boolean {
  return text === undefined || (/^[1-9]/.test(text) && Number(text) <= 65_535);
}

/** Pages that pass a code to an app on the user's own machine. The `state` parameter selects the app. */
const RELAYS: ReadonlySet<string> = new Set([
  'https://vscode.dev/redirect',
  'https://insiders.vscode.dev/redirect',
]);

/**
 * Whether any program on the user's own machine could receive the code. If so, every grant needs the user's consent.
 */
export function isOnUsersMachine(uri: string): boolean {
  return !uri.startsWith('https://') || RELAYS.has(uri);
}

/** The recipient of the code in the words of the pages: the host, or the scheme of the app. */
export function displayHost(uri: string): string {
  const url = URL.parse(uri);
  if (!url) return '';
  return url.protocol === 'https:' || url.protocol === 'http:'
    ? url.host
    : url.protocol.slice(0, -1);
}

/** Whether a redirect URI is a loopback address: some program on the user's machine gets the code. */
export function isLoopback(uri: string): boolean {
  return LOOPBACK.test(uri);
}

/** Maximum stored length of an app's host. Characters. */
const APP_MAX = 255;

/** The recipient of the code as a grant stores it: the host, or the scheme of the app. */
export function appOf(redirectUri: string): string {
  return displayHost(redirectUri).slice(0, APP_MAX);
}

/** Whether some redirect URI that matches the rule has this app, see {@link appOf}. */
export function hasApp(rule: RedirectRule, app: string): boolean {
  if (rule.kind === 'loopback') return rule.hosts.includes(app.replace(/:\d+$/, ''));
  return appOf(rule.kind === 'exact' ? rule.uri : rule.before) === app;
}

/**
 * A source expression of a content security policy for a redirect URI. For an IPv6 address it is only the scheme,
 * because source expressions have no syntax for IPv6.
 */
export function formTarget(redirectUri: string): string {
  const { protocol, origin } = new URL(redirectUri);
  const isNamed = protocol === 'https:' || protocol === 'http:';
  return isNamed && !origin.includes('[') ? origin : protocol;
}

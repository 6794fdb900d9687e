/** Where a code may be sent, read from one entry of the list. */
export type RedirectRule =
  | { readonly kind: 'exact'; readonly uri: string }
  | { readonly kind: 'segment'; readonly before: string; readonly after: string }
  | { readonly kind: 'loopback'; readonly hosts: readonly string[]; readonly path: string };

/** Longer ones are no address of a client we know. */
const MAX_LENGTH = 500;
const LOOPBACK = /^http:\/\/(127\.0\.0\.1|\[::1\]|localhost)(?::(\d{1,5}))?(\/[^?#]*)?$/;
const SEGMENT = /^[A-Za-z0-9_-]{1,128}$/;
const PLACE = '{id}';

/** @throws Error for an address that is none, or that could send codes to whoever asks for them. */
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
  const [before = '', after, more] = uri.split(PLACE);
  if (after === undefined) return { kind: 'exact', uri };
  if (more !== undefined || !/^https:\/\/[^/]+\/.*\/$/.test(before)) {
    throw new Error(`${PLACE} stands for one whole segment of an https path: ${uri}`);
  }
  return { kind: 'segment', before, after };
}

/** `https`, or a scheme of an app's own (RFC 8252, 7.1). */
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

/** Compares characters, never meanings: what is spelled otherwise is another address. */
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

/** Pages that hand a code on to whatever app on the user's own machine the state names. */
const RELAYS: ReadonlySet<string> = new Set([
  'https://vscode.dev/redirect',
  'https://insiders.vscode.dev/redirect',
]);

/** Whether whatever runs on the user's own machine may be behind it: then a person is asked. */
export function isOnOwnMachine(uri: string): boolean {
  return !uri.startsWith('https://') || RELAYS.has(uri);
}

/** What a person is told about where an answer goes: the host, or the app's scheme. */
export function displayHost(uri: string): string {
  const url = URL.parse(uri);
  if (!url) return '';
  return url.protocol === 'https:' || url.protocol === 'http:'
    ? url.host
    : url.protocol.slice(0, -1);
}

/** Characters of an app's host that are kept. */
const APP_MAX = 255;

/** By what a grant knows the app that it is for: the host that its code goes to, or the app's scheme. */
export function appOf(redirectUri: string): string {
  return displayHost(redirectUri).slice(0, APP_MAX);
}

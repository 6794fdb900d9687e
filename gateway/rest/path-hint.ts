import type { ServerResponse } from 'node:http';
import { nearest } from '../../services/contract/nearest.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { documentationLink, newestActive, serve } from '../../services/contract/versions.ts';
import { addHint, addLink } from '../http/help-headers.ts';

/** Maximum length of a path for which a hint is searched. Characters. */
const PATH_MAX = 200;
/** The id of an object or of a delivery. */
const ID = /^(?:\d{1,16}|msg_[0-9a-f-]{36})$/;
/** A part of a path that looks like a version, such as `v2`, `2026-9` or `latest`. */
const VERSION = /^(?:v\d[\w.]*|\d{4}-\d+|unstable|latest)$/i;
/** Paths under which other APIs have one return: below the list of returns. */
const ONE_RETURN = /^(?:\/warehouse)?\/returns?\/\{\}$/;
const DETAILS = '/warehouse/return/details?return_id={id}';

/** The paths of the operations. `form` is the path with `{}` in place of each id. */
const KNOWN = [...new Set(OPERATIONS.map(({ path }) => path))].map((path) => ({
  path,
  form: path.replaceAll(/\{\w+\}/g, '{}'),
}));

/**
 * Adds two things to the 404 of an unknown path or version: a link to the documents, and the path that the caller
 * probably wanted.
 */
export function addPathHelp(
  req: { readonly originalUrl: string },
  res: ServerResponse,
  today: Date,
): void {
  addLink(res, documentationLink(today));
  const hint = pathHint(req.originalUrl, today);
  if (hint !== undefined) addHint(res, hint);
}

/**
 * Returns the path that the caller of an unknown path probably wanted, in ASCII; undefined when no path is similar. A
 * path outside of `/api` must be exactly that of an operation, because the caller may want another service.
 *
 * @param target the target of the request, with its query.
 * @param today the date of the version calendar. The hint keeps a version of the path that is served, also a retired one
 *   that a newer version serves. Otherwise the hint has the newest active version.
 */
export function pathHint(target: string, today: Date): string | undefined {
  const [written = ''] = target.replace(/^https?:\/\/[^/?#]*/i, '').split('?');
  if (written.length > PATH_MAX) return undefined;
  const parts = written.split('/').filter((part) => part !== '');
  const isBelowApi = parts[0]?.toLowerCase() === 'api';
  const below = isBelowApi ? parts.slice(1) : parts;
  const named = VERSION.test(below[0] ?? '') ? below[0] : undefined;
  const meant = operationPath(named === undefined ? below : below.slice(1), { exact: !isBelowApi });
  if (meant === undefined) return undefined;
  const isServed = named !== undefined && !('unknown' in serve(named, today));
  const path = `/api/${isServed ? named : newestActive(today)}${meant}`;
  return written.replace(/\/+$/, '') === path
    ? `remove the / at the end of the path: ${path}`
    : `did you mean ${path}?`;
}

/** Returns the path of the most similar operation, with the ids of these parts. */
function operationPath(parts: readonly string[], o: { exact: boolean }): string | undefined {
  const form = `/${parts.map((part) => (ID.test(part) ? '{}' : part)).join('/')}`.toLowerCase();
  if (!/[a-z]/.test(form)) return undefined;
  const ids = parts.filter((part) => ID.test(part));
  const same = KNOWN.find((known) => known.form === form);
  const path = same?.path ?? (o.exact ? undefined : similarPath(form));
  let nth = 0;
  return path?.replaceAll(/\{\w+\}/g, (name) => ids[nth++] ?? name);
}

function similarPath(form: string): string | undefined {
  if (ONE_RETURN.test(form)) return DETAILS;
  // A longer path that contains all parts, such as `/webhooks/{}/secret/rotate` for `/webhooks/12/rotate`.
  const [whole] = KNOWN.filter((known) => isWithin(form, known.form)).sort(byLength);
  if (whole) return whole.path;
  return KNOWN.find((known) => isMistyped(form, known.form))?.path;
}

/** Whether each part of one path is equal or similar to the same part of the other path. */
function isMistyped(form: string, other: string): boolean {
  const [parts, others] = [form.split('/'), other.split('/')];
  return (
    parts.length === others.length &&
    parts.every((part, at) => {
      const known = others[at] ?? '';
      return part === known || (part !== '{}' && known !== '{}' && isSimilar(part, known));
    })
  );
}

function isSimilar(part: string, known: string): boolean {
  return nearest(part, [known]) !== undefined;
}

const byLength = (a: { form: string }, b: { form: string }) => a.form.length - b.form.length;

/** Whether the other path contains all parts of this path, in the same order. */
function isWithin(form: string, other: string): boolean {
  let from = 0;
  const parts = other.split('/');
  return form.split('/').every((part) => {
    from = parts.indexOf(part, from) + 1;
    return from > 0;
  });
}

import type { ServerResponse } from 'node:http';
import { nearest } from '../../services/contract/nearest.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { documentationLink, newestActive, serve } from '../../services/contract/versions.ts';
import { addHint, addLink } from './send-error.ts';

/** A longer path is not a mistyped one. Characters. */
const PATH_MAX = 200;
/** The id of an object or of a delivery. */
const ID = /^(?:\d{1,16}|msg_[0-9a-f-]{36})$/;
/** A part that looks as if it named a version, such as `v2`, `2026-9` or `latest`. */
const VERSION = /^(?:v\d[\w.]*|\d{4}-\d+|unstable|latest)$/i;
/** In other APIs an object is below its list. */
const ONE_RETURN = /^(?:\/warehouse)?\/returns?\/\{\}$/;
const DETAILS = '/warehouse/return/details?return_id={id}';

/** The paths of the operations. In their form each id is `{}`. */
const KNOWN = [...new Set(OPERATIONS.map(({ path }) => path))].map((path) => ({
  path,
  form: path.replaceAll(/\{\w+\}/g, '{}'),
}));

/** Adds to the 404 of an unknown path or version where the documents are, and which path may be meant. */
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
 * What the caller of an unknown path may have meant, in ASCII; undefined when no path is similar. A path outside of `/api`
 * must be that of an operation, since it may be meant for something else.
 *
 * @param target the target of the request, with its query.
 * @param today the date of the version calendar: a path without a supported version gets the newest one.
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

/** The path of the operation that these parts mean, with their ids. */
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
  // What was left out, such as `secret` of `/webhooks/12/rotate`.
  const [whole] = KNOWN.filter((known) => isWithin(form, known.form)).sort(byLength);
  if (whole) return whole.path;
  return KNOWN.find((known) => isMistyped(form, known.form))?.path;
}

/** Whether each part of the path is the one of the other, or similar to it. */
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

/** Whether the other path has all parts of this one, in the same order. */
function isWithin(form: string, other: string): boolean {
  let from = 0;
  const parts = other.split('/');
  return form.split('/').every((part) => {
    from = parts.indexOf(part, from) + 1;
    return from > 0;
  });
}

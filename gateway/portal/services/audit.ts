import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type pg from 'pg';
import type {
  AuditEntrySchema,
  AuditFilter as AuditFilterMessage,
  AuditService,
} from '../../../proto/gen/rms/portal/v1/audit_pb.ts';
import type { ActionContext } from '../../actions/context.ts';
import { findReturn } from '../../actions/returns.ts';
import { listApiKeys } from '../../tenancy/api-keys.ts';
import {
  type AuditFilter,
  assistantCalls,
  type FoundEntries,
  listAudit,
  searchAudit,
} from '../../tenancy/audit-list.ts';
import { namesFor } from '../../tenancy/audit-names.ts';
import { changesOf } from '../../tenancy/field-change.ts';
import { listMembers } from '../../tenancy/members.ts';
import { type ReadableEntry, readableEntry } from '../audit/entry.ts';
import { auditCsv, auditJsonLines } from '../audit/export.ts';
import { objectsOf, objectsOfOrder } from '../audit/returns.ts';
import { throughOf } from '../audit/through.ts';
import { ACT_CHOICES, actionsAboutThing, actionsNamed, actionsOf } from '../audit/words.ts';
import { callOf, type PortalCall } from '../call.ts';
import type { Portal } from '../create.ts';
import { filterId, idOf, optionalWord, pageSizeOf, timeOf, upTo } from '../fields.ts';

/** Maximum number of entries in one call of an export. */
const EXPORT_PAGE = 5_000;
/** Maximum number of people, and of keys, to choose from. */
const MAX_CHOICES = 1_000;
/** As in the table. Characters. */
const MAX_ACTOR = 200;
const MAX_ACTION = 100;
const MAX_TEXT = 200;

const FORMATS = ['csv', 'json'] as const;

interface Asked {
  readonly filter: AuditFilterMessage | undefined;
  readonly cursor: string;
  readonly limit: number;
}

/** The shop's audit log. */
export function auditService({ pool }: Portal): ServiceImpl<typeof AuditService> {
  const find = async (
    context: ActionContext,
    filter: AuditFilter,
    text: string,
  ): Promise<FoundEntries> => {
    if (text !== '') {
      const objects = await objectsOfOrder(context, text);
      return searchAudit(pool, filter, { text, actions: actionsNamed(text), objects });
    }
    const found = await listAudit(pool, { ...filter, limit: filter.limit + 1 });
    const entries = found.slice(0, filter.limit);
    return { entries, readTo: found.length > filter.limit ? entries.at(-1) : undefined };
  };
  const page = async (call: PortalCall, asked: Asked) => {
    const { shopId } = call.session;
    const text = upTo('filter.text', asked.filter?.text.trim() ?? '', MAX_TEXT);
    const returnId = filterId('filter.return_id', asked.filter?.returnId);
    const about = returnId && (await findReturn(call.context, byId(returnId)));
    const filter = { ...filterOf(shopId, asked), ...(about && { objects: objectsOf(about) }) };
    const { entries, readTo } = await find(call.context, filter, text);
    const names = await namesFor(pool, shopId, entries);
    return {
      entries: entries.map((entry) => readableEntry(entry, names)),
      nextCursor: readTo ? String(readTo.id) : '',
      readTo: readTo?.at,
    };
  };
  return {
    async listAuditEntries({ filter, pageSize, cursor }, context) {
      const limit = pageSizeOf(pageSize);
      const call = callOf(context);
      const { entries, nextCursor, readTo } = await page(call, { filter, cursor, limit });
      const calls = await assistantCalls(pool, call.session.shopId, entries);
      return {
        entries: entries.map((entry) => entryView(entry, throughOf(entry, calls.get(entry.id)))),
        nextCursor,
        ...(readTo && { readTo: timestampFromDate(readTo) }),
      };
    },

    listAuditChoices: (_request, context) => choicesOf(pool, callOf(context).session.shopId),

    async exportAuditEntries({ filter, cursor, format }, context) {
      const isJson = optionalWord('format', format, FORMATS) === 'json';
      const call = callOf(context);
      const found = await page(call, { filter, cursor, limit: EXPORT_PAGE });
      const shared = { nextCursor: found.nextCursor, entries: found.entries.length };
      // The entry of the export says what left the service.
      call.context.noteChanges?.(
        changesOf({
          entries: ['', String(found.entries.length)],
          format: ['', isJson ? 'json' : 'csv'],
          ...selectionOf(filter),
        }),
      );
      if (isJson) return { jsonLines: auditJsonLines(found.entries), ...shared };
      return { csv: auditCsv(found.entries, { withHeader: cursor === '' }), ...shared };
    },
  };
}

/** What the log of a shop can be filtered by. */
async function choicesOf(pool: pg.Pool, shopId: bigint) {
  const [members, keys] = [await listMembers(pool, shopId), await listApiKeys(pool, shopId)];
  return {
    actors: [
      ...members.slice(0, MAX_CHOICES).map(({ userId, name, email }) => ({
        id: String(userId),
        kind: 'user',
        name: name ?? '',
        email,
      })),
      // Newest first, so that only the oldest keys are left out.
      ...keys
        .reverse()
        .slice(0, MAX_CHOICES)
        .map(({ keyId, description }) => ({ id: keyId, kind: 'api_key', name: description })),
    ],
    actions: ACT_CHOICES,
  };
}

const byId = (value: bigint) => ({ case: 'returnId' as const, value });

/** The filter of an export, for its entry in the audit log. */
function selectionOf(filter: AuditFilterMessage | undefined): Parameters<typeof changesOf>[0] {
  const day = (at: AuditFilterMessage['from']) => at && timestampDate(at).toISOString();
  return {
    // Do not record the text itself, because it may be an e-mail address. No entry of the audit log has e-mail
    // addresses.
    search: ['', filter?.text ? 'yes' : ''],
    actor: ['', filter?.actorId],
    action: ['', filter?.action],
    thing: ['', filter?.thing],
    return: ['', filter?.returnId],
    since: ['', day(filter?.from)],
    until: ['', day(filter?.to)],
  };
}

function filterOf(shopId: bigint, o: Asked): AuditFilter {
  const { from, to, actorId = '', action = '', thing = '' } = o.filter ?? {};
  const since = timeOf('filter.from', from);
  const until = timeOf('filter.to', to);
  return {
    shopId,
    limit: o.limit,
    ...(since && { since }),
    ...(until && { until }),
    ...(actorId !== '' && { actor: upTo('filter.actor_id', actorId, MAX_ACTOR) }),
    ...actionFilter(upTo('filter.action', action, MAX_ACTION), thing),
    ...(o.cursor !== '' && { before: beforeOf(o.cursor) }),
  };
}

/** The actions of an act, or an action or prefix as it is stored; with a thing, only those about it. */
function actionFilter(name: string, thing: string): Pick<AuditFilter, 'action' | 'actions'> {
  const ofAct = actionsOf(name);
  const about = thing === '' ? undefined : actionsAboutThing(thing);
  const actions = about && ofAct ? ofAct.filter((one) => about.includes(one)) : (about ?? ofAct);
  return { ...(name !== '' && !ofAct && { action: name }), ...(actions && { actions }) };
}

function beforeOf(cursor: string): bigint {
  return idOf(/^\d{1,16}$/.test(cursor) ? cursor : '0', 'entry in its audit log');
}

function entryView(
  entry: ReadableEntry,
  through: string,
): MessageInitShape<typeof AuditEntrySchema> {
  const { id, at, actorKind, actorId, actorName, actorEmail, source, requestId, detail } = entry;
  const { action, act, subject, what, outcome, objectKind, objectName, changes, call } = entry;
  return {
    id: String(id),
    at: timestampFromDate(at),
    by: { kind: actorKind, id: actorId, name: actorName },
    source: source ?? '',
    requestId: requestId ?? '',
    action,
    act,
    subject,
    detail: JSON.stringify(detail),
    what,
    byEmail: actorEmail,
    outcome,
    objectKind,
    objectName,
    call,
    through,
    changes: changes.map(({ field, from = '', to = '' }) => ({ field, from, to })),
  };
}

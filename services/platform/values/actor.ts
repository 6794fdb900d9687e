import { Actor_KindSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { enumText } from './enum-text.ts';
import { cleanText, fits } from './text.ts';

/** Maximum length of an actor's id and name. Both are stored with everything that the actor does. Characters. */
const MAX_ACTOR_TEXT = 200;

const KINDS: ReadonlySet<number> = new Set(
  Actor_KindSchema.values.map(({ number }) => number).filter((number) => number !== 0),
);

/** Converts the kind of an actor to its text in the database, and back. */
export const actorKindText = enumText(Actor_KindSchema);

/**
 * Returns the rule that an actor in a request breaks, as the text after the name of the field. Returns undefined for a
 * valid actor: it has a known kind, an id of 1 to 200 characters, and a name and a program of at most 200 characters,
 * and all texts can be stored.
 */
export function brokenActorRule(actor: unknown): string | undefined {
  if (!isObject(actor)) return 'is required';
  const kind: unknown = Reflect.get(actor, 'kind');
  if (typeof kind !== 'number' || !KINDS.has(kind)) return 'must have a kind';
  const id: unknown = Reflect.get(actor, 'id');
  if (id === '' || !isStorable(id)) return `must have an id of 1 to ${MAX_ACTOR_TEXT} characters`;
  const broken = ['name', 'through'].find((field) => !isStorable(Reflect.get(actor, field)));
  return broken && `must have a ${broken} of at most ${MAX_ACTOR_TEXT} characters`;
}

function isStorable(text: unknown): boolean {
  return typeof text === 'string' && fits(text, MAX_ACTOR_TEXT) && cleanText(text);
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

import {
  type Effect,
  EffectKindSchema,
  EffectStateSchema,
} from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { EFFECT_KINDS, EFFECT_STATES, type EffectObject } from '../resources/effect.ts';
import { iso, textOrNull, word } from './values.ts';

/** An effect as partners see it. Throws when a required field is missing. */
export function effectView(effect: Effect): EffectObject {
  const kind = word(EffectKindSchema, effect.kind, EFFECT_KINDS);
  const state = word(EffectStateSchema, effect.state, EFFECT_STATES);
  if (!kind || !state || !effect.amount) {
    throw new Error(`effect ${effect.key} has no kind, state or amount`);
  }
  return {
    effect: kind,
    key: effect.key,
    state,
    amount: effect.amount.value,
    currency: effect.amount.currency,
    asked: iso(effect.requestedAt),
    answered: iso(effect.answeredAt),
    provider_id: textOrNull(effect.providerId),
    name: textOrNull(effect.name),
    problem: textOrNull(effect.problem),
  };
}

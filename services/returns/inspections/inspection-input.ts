import { z } from 'zod';
import type { Actor } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import {
  IMAGE_MAX,
  IMAGES_PER_ITEM_MAX,
  NOTE_MAX,
  RETURN_PROCESSOR_MAX,
} from '../../contract/limits.ts';
import { brokenActorRule } from '../../platform/actor.ts';
import { text, time } from '../../platform/input.ts';

/** Maximum number of inspections in one call. */
const MAX_INSPECTIONS = 100;

/** The schema of the inspections in one call. */
export const inspections = <T extends z.ZodType>(inspection: T) =>
  z
    .array(inspection)
    .min(1, 'must hold at least one')
    .max(MAX_INSPECTIONS, `must hold at most ${MAX_INSPECTIONS}`);

/** Links to images. This service never fetches them. */
export const images = z
  .array(text(IMAGE_MAX))
  .max(IMAGES_PER_ITEM_MAX, `must hold at most ${IMAGES_PER_ITEM_MAX}`);

/** The fields that both kinds of inspection have. */
export const inspectionShape = {
  returnProcessor: text(RETURN_PROCESSOR_MAX).optional(),
  note: text(NOTE_MAX).optional(),
  inspectedAt: time.optional(),
};

/** The actor who inspected; absent when it was the caller. It is checked in the same way as the caller. */
export const inspector = z
  .custom<Actor>()
  .superRefine((actor, context) => {
    const message = brokenActorRule(actor);
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  })
  .optional();

/** The parts of a body of the topic `return` by which a test recognises the return and its revision. */
export interface About {
  readonly topic: unknown;
  readonly trigger: unknown;
  readonly shopId: unknown;
  readonly returnId: unknown;
  readonly state: unknown;
  readonly updatedAt: unknown;
  /** Tracking numbers of the labels, in order. */
  readonly labels: unknown;
}

/** Extracts those parts from a body. Null when it is not a JSON object. */
export function aboutOf(body: string): About | null {
  try {
    const parsed: unknown = JSON.parse(body);
    if (typeof parsed !== 'object' || parsed === null) return null;
    const fields = parsed as Record<string, unknown>;
    const { topic, trigger, shop_id: shopId, id: returnId, state, updated_at: updatedAt } = fields;
    return {
      topic,
      trigger,
      shopId,
      returnId,
      state,
      updatedAt,
      labels: trackingIn(fields.labels),
    };
  } catch {
    return null;
  }
}

function trackingIn(labels: unknown): unknown {
  if (!Array.isArray(labels)) return labels;
  return labels.map((label: { tracking_number?: unknown }) => label.tracking_number);
}

// When what came and left, on one line: our questions, the backend's pieces above, the client's below.
function paint(context, name) {
  // A canvas does not know light-dark(): an element does.
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  context.fillStyle = getComputedStyle(probe).color;
  probe.remove();
}

export function drawTimeline(canvas, summary, rows) {
  const scale = devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  canvas.width = Math.max(1, width * scale);
  canvas.height = Math.max(1, height * scale);
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const end = Math.max(summary.ended ?? 0, rows.length ? rows[rows.length - 1].at : 0, 1);
  const x = (at) => 8 + (at / end) * (width - 16);
  const bars = (kind, top, size, name) => {
    paint(context, name);
    let before = -9;
    for (const row of rows) {
      if (row.kind !== kind) continue;
      const place = x(row.at);
      if (place - before < 0.5) continue;
      before = place;
      context.fillRect(place, top, 1.5, size);
    }
  };
  paint(context, "--line");
  context.fillRect(8, height / 2, width - 16, 1);
  for (const attempt of summary.attempts || []) {
    if (attempt.first_byte === null) continue;
    paint(context, "--raised");
    context.fillRect(x(attempt.at), 5, Math.max(1, x(attempt.first_byte) - x(attempt.at)), height - 10);
  }
  bars("backend", 6, height / 2 - 8, "--dim");
  bars("client", height / 2 + 3, height / 2 - 8, "--accent");
  const mark = (at, name) => {
    if (at === null || at === undefined) return;
    paint(context, name);
    context.fillRect(x(at) - 1, 0, 2, height);
  };
  for (const attempt of summary.attempts || []) mark(attempt.at, "--injected");
  mark(summary.first_content, "--reasoning");
  mark(summary.first_call, "--call");
  for (const row of rows) if (row.kind === "error") mark(row.at, "--bad");
  canvas.dataset.end = end;
}

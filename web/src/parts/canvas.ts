// A canvas that is as sharp as the screen and as wide as its place.

/** Fits the canvas to its size on the page and returns a context that draws in CSS pixels. */
export function contextFor(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const ratio = globalThis.devicePixelRatio || 1;
  const [wide, high] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  const context = canvas.getContext("2d");
  context?.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/** Calls back with the width of an element whenever it changes. */
export function watchWidth(element: Element, onWidth: (width: number) => void): () => void {
  const observer = new ResizeObserver((entries) => {
    const width = entries[0]?.contentRect.width ?? 0;
    if (width > 0) onWidth(width);
  });
  observer.observe(element);
  return () => observer.disconnect();
}

// Rows of pixels that are painted in memory and drawn at once, each stretched to the height of a lane.

export class Strip {
  private readonly canvas = document.createElement("canvas");
  private image: ImageData | null = null;
  private pixels = new Uint32Array(0);
  private painted: boolean[] = [];
  /** Colours as a canvas keeps them in memory; there are few. */
  private readonly words = new Map<string, number>();

  begin(width: number, lines: number): this {
    const [wide, high] = [Math.max(1, width), Math.max(1, lines)];
    if (this.image?.width !== wide || this.image.height !== high) {
      this.canvas.width = wide;
      this.canvas.height = high;
      this.image = new ImageData(wide, high);
      this.pixels = new Uint32Array(this.image.data.buffer);
    } else {
      this.pixels.fill(0);
    }
    this.painted = new Array(high).fill(false);
    return this;
  }

  /** Colours a line between two pixels; at least one. */
  paint(line: number, left: number, right: number, colour: string): void {
    const width = this.canvas.width;
    const first = Math.min(width - 1, Math.max(0, Math.floor(left)));
    const last = Math.min(width, Math.max(first + 1, Math.round(right)));
    this.pixels.fill(this.wordOf(colour), line * width + first, line * width + last);
    this.painted[line] = true;
  }

  has(line: number): boolean {
    return this.painted[line] ?? false;
  }

  end(): HTMLCanvasElement {
    if (this.image && this.painted.includes(true)) this.canvas.getContext("2d")?.putImageData(this.image, 0, 0);
    return this.canvas;
  }

  private wordOf(colour: string): number {
    let word = this.words.get(colour);
    if (word === undefined) {
      const channel = (at: number) => Number.parseInt(colour.slice(at, at + 2), 16);
      // In the order in which bytes lie in memory, which on every machine with a browser is the lowest first.
      word = (0xff000000 | (channel(5) << 16) | (channel(3) << 8) | channel(1)) >>> 0;
      this.words.set(colour, word);
    }
    return word;
  }
}

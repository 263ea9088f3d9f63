package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/limpet-io/limpet/test/bench/answers"
)

// Measures of the picture, in pixels.
const (
	width, labels, right   = 760, 100, 90 // the bars lie between the labels and the right margin
	bar, row, panel, title = 12, 36, 20, 44
)

// colours of the sides.
var colours = []string{"#0f766e", "#b45309"}

// picture draws a panel for each scene but those by force: a bar to the median, and a line to the 99th percentile.
func (r *results) picture() string {
	var w strings.Builder
	y := title
	for _, s := range scenes {
		if found := r.Scenes[s.name]; found != nil && s.name != "forced" {
			y = s.draw(&w, y, found)
		}
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12" fill="#1f2937">
<rect width="%[1]d" height="%[2]d" rx="8" fill="#ffffff"/>
<text x="16" y="26" font-size="15" font-weight="bold">Seconds without an answer after a deletion: median (bar) and p99 (line)</text>
`, width, y) + w.String() + "</svg>\n"
}

// draw draws a panel from y on, and returns where the next one begins.
func (s scene) draw(w *strings.Builder, y int, found []summary) int {
	longest := time.Second
	for _, f := range found {
		for _, way := range ways[:drawnWays] {
			if p99 := f.Quantiles[way.title].P99; p99 != answers.Never {
				longest = max(longest, p99)
			}
		}
	}
	at := func(d time.Duration) int {
		return labels + int(float64(width-labels-right)*float64(min(d, longest))/float64(longest))
	}
	fmt.Fprintf(w, "<text x=\"16\" y=\"%d\" font-size=\"13\" font-weight=\"bold\">%s</text>\n", y+14, s.title)
	for i, side := range sides {
		x := labels + 140*(i+1) + 60
		fmt.Fprintf(w, "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/><text x=\"%d\" y=\"%d\">%s</text>\n", x, y+4, colours[i], x+18, y+14, side.title)
	}
	y += panel + 6
	for _, way := range ways[:drawnWays] {
		fmt.Fprintf(w, "<text x=\"16\" y=\"%d\">%s</text>\n", y+bar+5, way.title)
		for i, f := range found {
			f.Quantiles[way.title].draw(w, y+i*(bar+2), colours[i], at)
		}
		y += row
	}
	return y + 10
}

// draw draws a bar. A pod that was never answered has a pale bar to the right margin.
func (q quantiles) draw(w *strings.Builder, y int, colour string, at func(time.Duration) int) {
	p50, p99 := at(q.P50), at(q.P99)
	opacity := 1.0
	if q.P50 == answers.Never {
		opacity = 0.3
	}
	fmt.Fprintf(w, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\" fill-opacity=\"%.1f\"/>", labels, y, p50-labels, bar, colour, opacity)
	fmt.Fprintf(w, "<path d=\"M%d %dH%dm0 -4v8\" stroke=\"%s\" fill=\"none\"/>", p50, y+bar/2, p99, colour)
	text := seconds(q.P50)
	if q.P99 != q.P50 {
		text += " / " + seconds(q.P99)
	}
	fmt.Fprintf(w, "<text x=\"%d\" y=\"%d\" font-size=\"11\">%s</text>\n", p99+6, y+bar-2, text)
}

// Pictures by way of gnuplot, a program that may not be there. A script says what is drawn, on
// standard output, and sets no terminal.
#pragma once
#include <string>

namespace command {

// As a gnuplot string in single quotes; text of one line.
std::string gnuplot_string(const std::string& text);

// Writes an SVG. Returns the reason where it cannot, else "": then no half of it is left.
std::string draw_svg(const std::string& script, const std::string& file);

// Returns the picture in characters; "" where it cannot, with the reason.
std::string draw_text(const std::string& script, size_t width, size_t height, std::string* reason);

}  // namespace command

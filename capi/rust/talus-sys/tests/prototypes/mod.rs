//! Reads prototypes from talus.h and from our sources, as "name(argument: type, ...) -> type".

use std::collections::BTreeMap;

/// By function name.
pub type Prototypes = BTreeMap<String, String>;

/// talus.h without its comments.
pub fn header() -> String {
    let mut rest = include_str!("../../../../../include/talus.h");
    let mut text = String::new();
    while let Some(start) = rest.find("/*") {
        text.push_str(&rest[..start]);
        rest = &rest[start + rest[start..].find("*/").expect("an open comment") + 2..];
    }
    text + rest
}

pub fn header_prototypes() -> Prototypes {
    let text = one_line(&header());
    text.split("TALUS_API ").filter_map(|piece| prototype_of_c(piece.split(';').next()?)).collect()
}

pub fn rust_prototypes() -> Prototypes {
    let text = one_line(include_str!("../../src/functions.rs"));
    let prototypes = text.split("pub fn ").skip(1).map(|piece| {
        let prototype = piece.split(';').next().unwrap();
        let prototype = prototype.replace("( ", "(").replace(", )", ")");
        (prototype.split('(').next().unwrap().to_string(), prototype)
    });
    prototypes.collect()
}

/// The structs that the header defines, and how many fields each has.
pub fn header_structs() -> Vec<(String, usize)> {
    let text = one_line(&header());
    let bodies = text.split("typedef struct ").skip(1).filter_map(|piece| {
        let (name, body) = piece.split_once(" {")?;
        let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        is_name.then(|| (name.to_string(), field_count(body.split('}').next().unwrap())))
    });
    bodies.collect()
}

/// A declaration may name several fields; those of functions have their commas in brackets.
fn field_count(body: &str) -> usize {
    let commas = |declaration: &str| split_arguments(declaration).len();
    body.split(';').filter(|text| !text.trim().is_empty()).map(commas).sum()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// None for the definition of the macro itself.
fn prototype_of_c(declaration: &str) -> Option<(String, String)> {
    let (before, rest) = declaration.split_once('(')?;
    let name = before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
    if !name.starts_with("talus_") {
        return None;
    }
    let arguments = rest.strip_suffix(')')?;
    let arguments = if arguments == "void" { Vec::new() } else { split_arguments(arguments) };
    let arguments: Vec<String> = arguments.iter().map(|text| argument_of_c(text)).collect();
    let result = match &before[..before.len() - name.len()] {
        "void " => String::new(),
        text => format!(" -> {}", type_of_c(text)),
    };
    Some((name.to_string(), format!("{name}({}){result}", arguments.join(", "))))
}

/// Splits at commas that are in no bracket.
fn split_arguments(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

fn argument_of_c(text: &str) -> String {
    if let Some((result, rest)) = text.split_once("(*") {
        let (name, arguments) = rest.split_once(")(").unwrap();
        assert_eq!(result, "void ", "a function that returns nothing: {text}");
        let argument = argument_of_c(arguments.trim_end_matches(')'));
        return format!("{name}: Option<unsafe extern \"C\" fn({argument})>");
    }
    let split = text.rfind([' ', '*']).unwrap() + 1;
    format!("{}: {}", &text[split..], type_of_c(&text[..split]))
}

/// "talus_optimizer *const *" is *const *mut talus_optimizer: a star points to what stands before.
fn type_of_c(text: &str) -> String {
    let (mut made, mut is_const) = (String::new(), false);
    for word in text.replace('*', " * ").split_whitespace() {
        match word {
            "const" => is_const = true,
            "*" => {
                made = format!("*{} {made}", if is_const { "const" } else { "mut" });
                is_const = false;
            }
            name => made = base_type(name).to_string(),
        }
    }
    made
}

fn base_type(name: &str) -> &str {
    match name {
        "int32_t" => "i32",
        "int64_t" => "i64",
        "uint32_t" => "u32",
        "uint64_t" => "u64",
        "double" => "f64",
        "float" => "f32",
        "char" => "c_char",
        "void" => "c_void",
        other => other,
    }
}

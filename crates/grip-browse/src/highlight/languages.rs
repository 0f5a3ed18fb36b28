//! The languages that are coloured.

/// What tells the tokens of a language apart.
pub(super) struct Language {
    /// Names in code blocks and extensions of files, separated by spaces.
    names: &'static str,
    /// Whole names of files.
    files: &'static str,
    pub(super) line_comments: &'static [&'static str],
    /// Beginnings and ends of what goes on over lines, with their classes.
    blocks: &'static [(&'static str, &'static str, &'static str)],
    pub(super) quotes: &'static str,
    /// Separated by spaces.
    keywords: &'static str,
    /// A name that begins with a capital is a type.
    pub(super) has_types: bool,
    /// A single quote may be a lifetime.
    pub(super) has_lifetimes: bool,
    pub(super) is_diff: bool,
}

impl Language {
    pub(super) fn has_keyword(&self, word: &str) -> bool {
        self.keywords.split(' ').any(|keyword| keyword == word)
    }

    /// The block that begins here.
    pub(super) fn open(&self, rest: &str) -> Option<(&'static str, &'static str, &'static str)> {
        let mut blocks = self.blocks.iter();
        blocks
            .find(|(start, _, _)| rest.starts_with(start))
            .copied()
    }
}

/// By a name such as `rust` or `rs`.
pub(super) fn by_name(name: &str) -> Option<&'static Language> {
    let name = name.to_ascii_lowercase();
    let is_it = |known: &str| !name.is_empty() && known == name;
    LANGUAGES
        .iter()
        .find(|language| language.names.split(' ').any(is_it))
}

/// By the name of a file, or else by its first line.
pub(super) fn by_path(name: &str, first_line: &str) -> Option<&'static Language> {
    let whole = |language: &&Language| language.files.split(' ').any(|file| file == name);
    if let Some(language) = LANGUAGES.iter().find(whole) {
        return Some(language);
    }
    if let Some((_, extension)) = name.rsplit_once('.') {
        return by_name(extension);
    }
    let interpreter = first_line.strip_prefix("#!")?;
    let words = interpreter.split(['/', ' ']).rev();
    words
        .map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'))
        .find_map(by_name)
}

const NONE: Language = Language {
    names: "",
    files: "",
    line_comments: &[],
    blocks: &[],
    quotes: "\"'",
    keywords: "",
    has_types: false,
    has_lifetimes: false,
    is_diff: false,
};

const C_LIKE: Language = Language {
    line_comments: &["//"],
    blocks: &[("/*", "*/", "c")],
    has_types: true,
    ..NONE
};

const HASHED: Language = Language {
    line_comments: &["#"],
    ..NONE
};

static LANGUAGES: &[Language] = &[
    Language {
        names: "rust rs",
        keywords: "as async await break const continue crate dyn else enum extern false fn for if \
                   impl in let loop match mod move mut pub ref return self Self static struct \
                   super trait true type unsafe use where while",
        has_lifetimes: true,
        ..C_LIKE
    },
    Language {
        names: "go golang mod",
        files: "go.mod go.sum",
        blocks: &[("/*", "*/", "c"), ("`", "`", "s")],
        keywords: "break case chan const continue default defer else fallthrough false for func go \
                   goto if import interface map module nil package range replace require return \
                   select struct switch true type var",
        ..C_LIKE
    },
    Language {
        names: "c h cc cpp cxx hpp hh m ino",
        keywords: "auto bool break case catch char class const constexpr continue default delete do \
                   double else enum explicit extern false float for friend goto if include inline \
                   int long namespace new nullptr NULL operator override private protected public \
                   return short signed sizeof static struct switch template this throw true try \
                   typedef typename union unsigned using virtual void volatile while define ifdef \
                   ifndef endif pragma",
        ..C_LIKE
    },
    Language {
        names: "java kt kts kotlin cs csharp scala dart swift groovy gradle",
        keywords: "abstract as async await boolean break byte case catch char class const continue \
                   data def default do double else enum extends false final finally float for fun \
                   func guard if implements import in init int interface internal is let long \
                   namespace new null nil object open override package private protected public \
                   return sealed self static string struct super suspend switch this throw throws \
                   true try typealias using val var void when where while yield",
        ..C_LIKE
    },
    Language {
        names: "js jsx mjs cjs javascript ts tsx typescript json jsonc vue svelte",
        blocks: &[("/*", "*/", "c"), ("`", "`", "s")],
        keywords: "abstract any as async await boolean break case catch class const constructor \
                   continue debugger declare default delete do else enum export extends false \
                   finally for from function get if implements import in instanceof interface let \
                   new null number of private protected public readonly return set static string \
                   super switch this throw true try type typeof undefined unknown var void while \
                   yield",
        ..C_LIKE
    },
    Language {
        names: "php",
        line_comments: &["//", "#"],
        keywords: "abstract array as break case catch class const continue default do echo else \
                   elseif extends false final finally fn for foreach function if implements \
                   interface match namespace new null private protected public return static \
                   switch this throw trait true try use var while",
        ..C_LIKE
    },
    Language {
        names: "zig odin v proto thrift glsl wgsl hlsl sol",
        keywords: "bool break bytes comptime const contract continue defer else enum error export \
                   false fn for function if import in int32 int64 inline map message null option \
                   optional package pub public repeated return returns rpc service string struct \
                   switch syntax true try uint union usize var void while",
        ..C_LIKE
    },
    Language {
        names: "css scss less",
        keywords: "important media import supports keyframes root",
        has_types: false,
        ..C_LIKE
    },
    Language {
        names: "py python pyi bzl",
        blocks: &[("\"\"\"", "\"\"\"", "s"), ("'''", "'''", "s")],
        keywords: "and as assert async await break class continue def del elif else except False \
                   finally for from global if import in is lambda None nonlocal not or pass raise \
                   return self True try while with yield",
        has_types: true,
        ..HASHED
    },
    Language {
        names: "sh bash zsh fish shell console ksh",
        files: ".bashrc .profile PKGBUILD",
        keywords: "case do done elif else esac exit export fi for function if in local return set \
                   shift then trap unset until while",
        ..HASHED
    },
    Language {
        names: "rb ruby ex exs elixir cr pl pm perl r jl julia",
        files: "Gemfile Rakefile",
        keywords: "alias and begin break case class def defmodule defp do else elsif end ensure \
                   false for function fn if import in include let module my next nil not or our \
                   package raise require rescue return self sub super then true unless until use \
                   using when while yield",
        has_types: true,
        ..HASHED
    },
    Language {
        names: "toml yaml yml ini cfg conf properties env nix tf hcl graphql cmake service",
        files: "Cargo.lock .gitignore .gitattributes .editorconfig CMakeLists.txt .env",
        keywords: "true false null yes no on off let in with inherit rec",
        ..HASHED
    },
    Language {
        names: "make makefile mk dockerfile docker just",
        files: "Makefile makefile GNUmakefile Dockerfile Containerfile justfile Justfile",
        keywords: "ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL RUN SHELL USER \
                   VOLUME WORKDIR AS define else endef endif export ifdef ifeq ifndef ifneq include",
        ..HASHED
    },
    Language {
        names: "sql psql",
        line_comments: &["--"],
        blocks: &[("/*", "*/", "c")],
        keywords: "add all alter and as asc begin between by case check column commit constraint \
                   create default delete desc distinct drop else end exists foreign from group \
                   having if in index inner insert into is join key left like limit not null on or \
                   order outer primary references returning rollback select set table then to \
                   transaction union unique update using values view when where with ADD ALL ALTER \
                   AND AS ASC BEGIN BETWEEN BY CASE CHECK COLUMN COMMIT CONSTRAINT CREATE DEFAULT \
                   DELETE DESC DISTINCT DROP ELSE END EXISTS FOREIGN FROM GROUP HAVING IF IN INDEX \
                   INNER INSERT INTO IS JOIN KEY LEFT LIKE LIMIT NOT NULL ON OR ORDER OUTER PRIMARY \
                   REFERENCES RETURNING ROLLBACK SELECT SET TABLE THEN TO TRANSACTION UNION UNIQUE \
                   UPDATE USING VALUES VIEW WHEN WHERE WITH",
        ..NONE
    },
    Language {
        names: "lua hs haskell elm ada",
        line_comments: &["--"],
        blocks: &[("{-", "-}", "c"), ("--[[", "]]", "c")],
        keywords: "and break case class data deriving do else elseif end false for function if \
                   import in instance let local module newtype nil not of or repeat return then \
                   true type until where while",
        has_types: true,
        ..NONE
    },
    Language {
        names: "html htm xml svg xhtml xaml",
        blocks: &[("<!--", "-->", "c")],
        quotes: "\"",
        keywords: "a body button div form h1 h2 head html img input li link main meta nav ol p path \
                   script section span style svg table td th title tr ul",
        ..NONE
    },
    Language {
        names: "diff patch",
        is_diff: true,
        ..NONE
    },
];
